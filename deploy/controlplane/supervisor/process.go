// One child process, in its own process group: a Ctrl-C in the terminal reaches
// only the supervisor, which stops the children in order. Its environment is
// small and its output is appended to its log.

package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"operetta.dev/deploy/controlplane/parentdeath"
)

// passedOn lists the variables that children inherit. Others could change their
// behaviour: etcd reads ETCD_*, kwok KWOK_*.
var passedOn = []string{"PATH", "TMPDIR", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

type process struct {
	program  string
	pid      int
	started  time.Time
	logPath  string
	logStart int64 // offset of its first output in the log

	done  chan struct{}    // closed when it has ended and been waited for
	state *os.ProcessState // valid once done is closed
}

func start(assets, program string, args []string, dir layout) (*process, error) {
	logFile, err := os.OpenFile(dir.log(program), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the child has its own copy
	info, err := logFile.Stat()
	if err != nil {
		return nil, err
	}

	command := exec.Command(filepath.Join(assets, program), args...)
	command.Dir = dir.path()
	command.Env = childEnvironment(os.Environ(), dir)
	command.Stdout, command.Stderr = logFile, logFile
	command.SysProcAttr = parentdeath.ChildAttributes()
	if err := onLastingThread(command.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p := &process{
		program: program, pid: command.Process.Pid, started: time.Now(),
		logPath: dir.log(program), logStart: info.Size(),
		done: make(chan struct{}),
	}
	go func() {
		_ = command.Wait() // its result is in ProcessState
		p.state = command.ProcessState
		close(p.done)
	}()
	return p, nil
}

func childEnvironment(ours []string, dir layout) []string {
	env := []string{
		"HOME=" + dir.path(), // kwok reads ~/.kwok, kubectl ~/.kube
		fmt.Sprintf("%s=%d", parentdeath.Variable, os.Getpid()),
	}
	for _, variable := range ours {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(passedOn, name) {
			env = append(env, variable)
		}
	}
	return env
}

// lastingThread runs functions on one OS thread that never ends. Linux sends the
// parent-death signal when the thread that started a child ends, and the Go
// runtime may end a thread at any time.
var lastingThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onLastingThread(f func() error) error {
	result := make(chan error)
	lastingThread() <- func() { result <- f() }
	return <-result
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed reports whether a signal ended the process. Call it only on a process
// that has ended.
func (p *process) killed() bool {
	status, ok := p.state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// tail returns the last lines of its log.
func (p *process) tail() string { return tail(p.logPath, p.logStart) }

// stop sends SIGTERM, then SIGKILL after grace or once hurry is closed. It returns
// when the process has ended.
func (p *process) stop(grace time.Duration, hurry <-chan struct{}) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(grace):
	case <-hurry:
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal sends a signal unless the process has ended: a pid that was waited for
// could belong to another process.
func (p *process) signal(signal syscall.Signal) {
	if !p.ended() {
		_ = syscall.Kill(p.pid, signal)
	}
}
