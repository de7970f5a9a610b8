package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADirInUseIsRefusedWithItsHoldersPid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := acquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = acquireLock(path)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("error %v, want one naming pid %d", err, os.Getpid())
	}
	first.release()
	second, err := acquireLock(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	second.release()
}
