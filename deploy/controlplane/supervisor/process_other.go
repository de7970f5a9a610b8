//go:build !linux

// Without a parent-death signal a child of the multi-call binary watches for the
// supervisor's end itself. (Upstream's programs cannot: after kill -9 of the
// supervisor they stay.)

package supervisor

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// DieWithSupervisor ends this process soon after the supervisor that started it,
// if one did.
func DieWithSupervisor() {
	parent, err := strconv.Atoi(os.Getenv(supervisorPid))
	if err != nil {
		return
	}
	go func() {
		for os.Getppid() == parent {
			time.Sleep(200 * time.Millisecond)
		}
		os.Exit(1)
	}()
}
