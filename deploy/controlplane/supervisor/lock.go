// The lock of --dir: at most one supervisor per folder. The lock is advisory, and
// the kernel releases it when its holder ends, however it ends.

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

type lock struct{ file *os.File }

// holder describes the supervisor that holds a lock, as the lock's file says.
type holder struct {
	Pid        int       `json:"pid"`
	Since      time.Time `json:"since"`
	Kubeconfig string    `json:"kubeconfig"`
}

// heldError reports that another supervisor holds a folder.
type heldError struct {
	dir    string
	holder holder
}

func (e *heldError) Error() string {
	return fmt.Sprintf("%s is in use by controlplane (pid %d) since %s; its kubeconfig is %s; `controlplane down --dir %s` stops it",
		e.dir, e.holder.Pid, e.holder.Since.Format(time.RFC3339), e.holder.Kubeconfig, e.dir)
}

// acquireLock locks dir and writes its holder into the lock's file. It returns a
// *heldError at once if another process holds the lock.
func acquireLock(dir layout) (*lock, error) {
	path := dir.lock()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &heldError{string(dir), readHolder(path)}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	text, err := json.Marshal(holder{os.Getpid(), time.Now().UTC().Truncate(time.Second), dir.kubeconfig()})
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &lock{file}, nil
}

// readHolder returns the zero holder while the file is unreadable: its holder may
// be writing it.
func readHolder(path string) holder {
	var found holder
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &found)
	}
	return found
}

// release leaves the file: without it two holders could lock two files.
func (l *lock) release() { _ = l.file.Close() }
