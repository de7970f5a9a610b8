package operettatest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// startTime is the longest time that a test server may take to start.
const startTime = time.Minute

// serverAddress returns the address of the test server, as `TOKEN@HOST:PORT`: that of `operetta test`, or else of a server
// that this process starts at the first call.
var serverAddress = sync.OnceValues(func() (string, error) {
	if address := os.Getenv("OPERETTA_TEST_ADDRESS"); address != "" {
		return address, nil
	}
	program := os.Getenv("OPERETTA")
	if program == "" {
		program = "operetta"
	}
	return startServer(program)
})

// serverInput is the standard input of the server that this process started. The server ends when it closes, which the
// end of the process does at the latest.
var serverInput io.WriteCloser

// startServer starts `operetta test --serve` and returns the address that it prints.
func startServer(program string) (string, error) {
	command := exec.Command(program, "test", "--serve")
	var complaints bytes.Buffer
	command.Stderr = &complaints
	input, err := command.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("starting the test server: %w", err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("starting the test server: %w", err)
	}
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("the test server cannot be started: %w; run the tests with `operetta test`, or put `operetta` on "+
			"PATH (or set OPERETTA to the program)", err)
	}
	late := time.AfterFunc(startTime, func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if inTime := late.Stop(); err != nil {
		_ = input.Close()
		ended := command.Wait() // complaints is complete then
		if !inTime {
			err = fmt.Errorf("it printed no address within %v", startTime)
		} else if ended != nil {
			err = ended
		}
		return "", fmt.Errorf("`%s test --serve` failed: %w\n%s", program, err, complaints.String())
	}
	serverInput = input
	return strings.TrimSpace(line), nil
}
