// A control plane that outlives the shell it was started from: `up --detach`
// starts it in a session of its own, `down` stops it.

package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// detachedVariable marks the process that `up --detach` starts.
const detachedVariable = "OPERETTA_CONTROLPLANE_DETACHED"

const (
	downPatience = 30 * time.Second // covers every component's grace
	downInterval = 50 * time.Millisecond
)

// detach runs the same command in a session of its own and returns once that is
// ready or has ended. The new process holds none of our files, so whoever reads
// our output is not kept waiting.
func detach(args []string, stdout, stderr io.Writer) int {
	executable, err := os.Executable()
	if err != nil {
		return failed(stderr, err)
	}
	child := exec.Command(executable)
	child.Args = args
	child.Env = append(os.Environ(), detachedVariable+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, outputErr := child.StdoutPipe()
	messages, messagesErr := child.StderrPipe()
	if err := errors.Join(outputErr, messagesErr, child.Start()); err != nil {
		return failed(stderr, err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		for range signals {
			_ = child.Process.Signal(syscall.SIGTERM)
		}
	}()
	copied := make(chan struct{})
	go func() {
		_, _ = io.Copy(stderr, messages)
		close(copied)
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err == nil {
		_, _ = io.WriteString(stdout, line)
		return exitDone
	}
	<-copied
	_ = child.Wait() // its result is in ProcessState
	if code := child.ProcessState.ExitCode(); code > exitDone {
		return code
	}
	return exitFailed
}

// down stops the supervisor of a folder and returns when it has ended. A folder
// without a running supervisor is no error.
func down(args []string, stdout, stderr io.Writer) int {
	dir, err := parseDown(args)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, usage)
		return exitDone
	}
	if err != nil {
		return wrongUsage(stderr, err)
	}
	deadline := time.Now().Add(downPatience)
	asked := 0
	for {
		found, err := holderOf(dir)
		switch {
		case err != nil:
			return failed(stderr, err)
		case found == nil && asked == 0:
			fmt.Fprintf(stdout, "not running in %s\n", dir)
			return exitDone
		case found == nil:
			fmt.Fprintf(stdout, "stopped pid %d\n", asked)
			return exitDone
		case time.Now().After(deadline):
			return failed(stderr, fmt.Errorf("pid %d still holds %s after %v", found.Pid, dir, downPatience))
		case found.Pid > 0 && found.Pid != asked:
			if err := syscall.Kill(found.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return failed(stderr, fmt.Errorf("stop pid %d: %w", found.Pid, err))
			}
			asked = found.Pid
		}
		time.Sleep(downInterval)
	}
}

// holderOf returns the supervisor that runs in dir, or nil.
func holderOf(dir layout) (*holder, error) {
	if missing(dir.lock()) {
		return nil, nil
	}
	lock, err := acquireLock(dir)
	var held *heldError
	if errors.As(err, &held) {
		return &held.holder, nil
	}
	if err != nil {
		return nil, err
	}
	lock.release()
	return nil, nil
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "controlplane: %v\n", err)
	return exitFailed
}

func wrongUsage(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "controlplane: %v; see `controlplane help`\n", err)
	return exitUsage
}
