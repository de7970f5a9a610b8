package term

// Added by `operetta build`: the streams of a process are no terminals.

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// ErrInvalidState is returned if the state of the terminal is invalid.
var ErrInvalidState = errors.New("Invalid terminal state")

// Termios is the state of a terminal, of which there is none.
type Termios struct{}

type terminalState struct {
	termios Termios
}

func stdStreams() (stdIn io.ReadCloser, stdOut, stdErr io.Writer) {
	return os.Stdin, os.Stdout, os.Stderr
}

func getFdInfo(in interface{}) (uintptr, bool) {
	if file, ok := in.(*os.File); ok {
		return file.Fd(), false
	}
	return 0, false
}

func getWinsize(uintptr) (*Winsize, error)         { return nil, syscall.ENOTTY }
func setWinsize(uintptr, *Winsize) error           { return syscall.ENOTTY }
func isTerminal(uintptr) bool                      { return false }
func restoreTerminal(uintptr, *State) error        { return syscall.ENOTTY }
func saveState(uintptr) (*State, error)            { return nil, syscall.ENOTTY }
func disableEcho(uintptr, *State) error            { return syscall.ENOTTY }
func setRawTerminal(uintptr) (*State, error)       { return nil, syscall.ENOTTY }
func setRawTerminalOutput(uintptr) (*State, error) { return nil, syscall.ENOTTY }
func makeRaw(uintptr) (*State, error)              { return nil, syscall.ENOTTY }
