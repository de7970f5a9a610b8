// One child process: started in its own process group (a Ctrl-C in the terminal
// is for the supervisor, which stops the children in order), with a small
// environment, its output appended to its log.

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
)

// passedOn are the variables that children get. The rest could change what they
// do: etcd reads ETCD_*, kwok KWOK_*.
var passedOn = []string{"PATH", "TMPDIR", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

type process struct {
	program  string
	pid      int
	started  time.Time
	logPath  string
	logStart int64 // where in the log its output begins

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
	command.SysProcAttr = childAttributes()
	if err := onLastingThread(command.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p := &process{
		program: program, pid: command.Process.Pid, started: time.Now(),
		logPath: dir.log(program), logStart: info.Size(),
		done: make(chan struct{}),
	}
	go func() {
		_ = command.Wait() // what it says is in ProcessState
		p.state = command.ProcessState
		close(p.done)
	}()
	return p, nil
}

func childEnvironment(ours []string, dir layout) []string {
	env := []string{
		"HOME=" + dir.path(), // kwok reads ~/.kwok, kubectl ~/.kube
		fmt.Sprintf("%s=%d", supervisorPid, os.Getpid()),
	}
	for _, variable := range ours {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(passedOn, name) {
			env = append(env, variable)
		}
	}
	return env
}

// lastingThread runs functions on one OS thread that never ends: Linux sends the
// parent-death signal when the *thread* that started a child ends, and Go ends
// threads as it likes.
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

// killed tells whether a signal ended it, as opposed to its own decision.
// Only for a process that has ended.
func (p *process) killed() bool {
	status, ok := p.state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// tail is the end of what it logged.
func (p *process) tail() string { return tail(p.logPath, p.logStart) }

// stop asks it to end and kills it after grace, or once hurry is closed. It
// returns when the process is gone.
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

// signal sends only while the pid is certainly ours: not yet waited for, or at
// worst a moment ago (pids are not reused that fast).
func (p *process) signal(signal syscall.Signal) {
	if !p.ended() {
		_ = syscall.Kill(p.pid, signal)
	}
}

// supervisorPid is the variable that tells a child who started it.
const supervisorPid = "OPERETTA_CONTROLPLANE_PID"
