package supervisor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLockRefusesSecondHolderAndNamesTheFirst(t *testing.T) {
	dir := layout(t.TempDir())
	before := time.Now().Add(-time.Second)
	first, err := acquireLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = acquireLock(dir)
	var held *heldError
	if !errors.As(err, &held) || held.holder.Pid != os.Getpid() || held.holder.Since.Before(before) {
		t.Fatalf("error %v, want one with the pid %d and the time", err, os.Getpid())
	}
	for _, part := range []string{fmt.Sprintf("(pid %d)", os.Getpid()), held.holder.Since.Format(time.RFC3339), dir.kubeconfig(), "controlplane down --dir " + string(dir)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
	first.release()
	second, err := acquireLock(dir)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	second.release()
}

func TestLockOfOlderVersionIsHeldByUnknownProcess(t *testing.T) {
	dir := layout(t.TempDir())
	if err := os.WriteFile(dir.lock(), []byte("123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := readHolder(dir.lock()); found != (holder{}) {
		t.Errorf("holder %v, want none", found)
	}
}
