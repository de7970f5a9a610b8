// Linux: the kernel kills a child when the supervisor ends, even by kill -9.

package parentdeath

import "syscall"

// ChildAttributes returns the attributes of a child: its own process group, and
// a SIGKILL when its parent ends.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Watch does nothing: the kernel watches.
func Watch() {}
