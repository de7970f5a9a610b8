package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test program stand in for the programs that it starts: its
// symlinks under their names are a folder of assets.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "controlplane":
		os.Exit(Main(os.Args))
	case etcd:
		time.Sleep(time.Hour)
	case apiserver:
		os.Exit(fakeAPIServer(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// fakeAPIServer answers every request with 200.
func fakeAPIServer(args []string) int {
	values := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		values[name] = value
	}
	err := http.ListenAndServeTLS("127.0.0.1:"+values["--secure-port"], values["--tls-cert-file"], values["--tls-private-key-file"],
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// fakeAssets returns the path of a controlplane whose components are fakes.
func fakeAssets(t *testing.T) string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"controlplane", etcd, apiserver} {
		if err := os.Symlink(executable, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", "")
	return filepath.Join(folder, "controlplane")
}

// runCommand runs a command to its end and returns its exit code and both outputs.
func runCommand(t *testing.T, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	command := exec.Command(name, args...)
	command.Stdout = &out
	command.Stderr = &messages
	command.WaitDelay = 10 * time.Second // an output that is still held is an error
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return command.ProcessState.ExitCode(), out.String(), messages.String()
}

func TestDetachedControlPlaneOutlivesItsShellUntilDown(t *testing.T) {
	program := fakeAssets(t)
	dir := t.TempDir()
	t.Cleanup(func() { runCommand(t, program, "down", "--dir", dir) })
	line := fmt.Sprintf("%q up --detach --dir %q", program, dir)
	code, stdout, stderr := runCommand(t, "sh", "-c", line)
	if code != exitDone || stdout != "ready KUBECONFIG="+filepath.Join(dir, "kubeconfig")+"\n" {
		t.Fatalf("up --detach: code %d, %q, %q", code, stdout, stderr)
	}
	time.Sleep(600 * time.Millisecond) // longer than the supervisor takes to notice its parent's end
	found, err := holderOf(layout(dir))
	if err != nil || found == nil || syscall.Kill(found.Pid, 0) != nil {
		t.Fatalf("after the shell has ended: holder %v, %v", found, err)
	}

	code, _, stderr = runCommand(t, program, "up", "--dir", dir)
	if code != exitFailed || !strings.Contains(stderr, fmt.Sprintf("is in use by controlplane (pid %d) since ", found.Pid)) {
		t.Errorf("second up: code %d, %q", code, stderr)
	}
	code, _, stderr = runCommand(t, program, "up", "--detach", "--dir", dir)
	if code != exitFailed || !strings.Contains(stderr, filepath.Join(dir, "kubeconfig")) {
		t.Errorf("second up --detach: code %d, %q", code, stderr)
	}

	code, stdout, stderr = runCommand(t, program, "down", "--dir", dir)
	if code != exitDone || stdout != fmt.Sprintf("stopped pid %d\n", found.Pid) {
		t.Errorf("down: code %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, _ = runCommand(t, program, "down", "--dir", dir); code != exitDone || !strings.HasPrefix(stdout, "not running") {
		t.Errorf("second down: code %d, %q", code, stdout)
	}
}

func TestAttachedControlPlaneStopsWithItsParent(t *testing.T) {
	program := fakeAssets(t)
	dir := t.TempDir()
	line := fmt.Sprintf("%q up --dir %q >/dev/null 2>&1 & while [ ! -e %q ]; do sleep 0.05; done; sleep 0.5", program, dir, filepath.Join(dir, "pids.json"))
	runCommand(t, "sh", "-c", line)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(downInterval) {
		found, err := holderOf(layout(dir))
		if err == nil && found == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("20 s after its parent's end: holder %v, %v", found, err)
		}
	}
}

func TestDetachReportsAFailedStart(t *testing.T) {
	program := fakeAssets(t)
	code, stdout, stderr := runCommand(t, program, "up", "--detach", "--with=kwok", "--dir", t.TempDir())
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "has no kwok") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}
