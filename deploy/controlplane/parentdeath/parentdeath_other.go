//go:build !linux

// Without a parent-death signal a child of the multi-call binary polls for the
// supervisor's end itself. Upstream's programs cannot: they outlive a supervisor
// that was ended by kill -9.

package parentdeath

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

// ChildAttributes returns the attributes of a child: its own process group.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// Watch ends this process soon after the supervisor that started it, if one did.
func Watch() {
	parent, err := strconv.Atoi(os.Getenv(Variable))
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
