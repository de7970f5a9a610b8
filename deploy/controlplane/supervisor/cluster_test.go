package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRestartDelayGrowsWithCrashesButNotWithKills(t *testing.T) {
	for _, test := range []struct {
		name   string
		before int
		uptime time.Duration
		killed bool
		want   int
	}{
		{"killed by a test", 3, 2 * time.Second, true, 0},
		{"killed at once, again and again", 3, 100 * time.Millisecond, true, 4},
		{"ended by itself", 0, 2 * time.Second, false, 1},
		{"ended by itself after a long time", 3, time.Hour, false, 0},
	} {
		if got := countCrashes(test.before, test.uptime, test.killed); got != test.want {
			t.Errorf("%s: %d crashes, want %d", test.name, got, test.want)
		}
	}
	if backoff(0) != 0 || backoff(1) != 250*time.Millisecond || backoff(2) != 500*time.Millisecond || backoff(100) != 8*time.Second {
		t.Errorf("backoff: %v %v %v %v", backoff(0), backoff(1), backoff(2), backoff(100))
	}
}

func TestEveryListenerIsOnLoopback(t *testing.T) {
	o := options{with: map[string]bool{controller: true, scheduler: true, kwok: true}}
	at := ports{APIServer: 20001, EtcdClient: 20002, EtcdPeer: 20003}
	want := map[string][]string{
		etcd:       {"--listen-client-urls=http://127.0.0.1:20002", "--listen-peer-urls=http://127.0.0.1:20003"},
		apiserver:  {"--bind-address=127.0.0.1", "--secure-port=20001"},
		controller: {"--secure-port=0"},
		scheduler:  {"--secure-port=0"},
		kwok:       {"--node-port=0", "--server-address="},
	}
	for _, program := range o.programs() {
		args := arguments(program, o, layout("/d"), at)
		for _, arg := range want[program] {
			if !slices.Contains(args, arg) {
				t.Errorf("%s: no %s in %v", program, arg, args)
			}
		}
	}
}

func TestAuditLogNeedsItsFlag(t *testing.T) {
	for _, audit := range []bool{false, true} {
		args := strings.Join(apiserverArguments(options{audit: audit}, layout("/d"), ports{}), " ")
		if strings.Contains(args, "--audit-log-path=/d/audit.log") != audit {
			t.Errorf("audit=%v: %s", audit, args)
		}
	}
}

func TestAuthorizationConfigReplacesRBACMode(t *testing.T) {
	for file, want := range map[string]string{
		"":     "--authorization-mode=RBAC",
		"/a/b": "--authorization-config=/a/b",
	} {
		args := apiserverArguments(options{authorization: file}, layout("/d"), ports{})
		found := slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--authorization-") })
		if !slices.Equal(found, []string{want}) {
			t.Errorf("%q: %v, want %s", file, found, want)
		}
	}
}

func TestEgressSelectorIsPassedOn(t *testing.T) {
	for _, file := range []string{"", "/a/b"} {
		args := apiserverArguments(options{egress: file}, layout("/d"), ports{})
		if found := slices.Contains(args, "--egress-selector-config-file=/a/b"); found != (file != "") {
			t.Errorf("%q: %v", file, args)
		}
	}
}

func TestServiceAccountAdmissionIsOffWithoutControllers(t *testing.T) {
	for _, with := range []bool{false, true} {
		o := options{with: map[string]bool{controller: with}}
		args := apiserverArguments(o, layout("/d"), ports{})
		disabled := slices.Contains(args, "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount")
		if disabled == with {
			t.Errorf("controllers=%v: %v", with, args)
		}
	}
}

func TestTailReturnsLastLinesOfThisRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	var text strings.Builder
	text.WriteString("earlier run\n")
	start := int64(text.Len())
	if got := writeAndTail(t, path, text.String(), start); !strings.Contains(got, "logged nothing") {
		t.Errorf("empty: %q", got)
	}
	text.WriteString("one\n")
	if got := writeAndTail(t, path, text.String(), start); got != "  one" {
		t.Errorf("one line: %q", got)
	}
	for i := range 10000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	got := strings.Split(writeAndTail(t, path, text.String(), start), "\n")
	if len(got) != tailLines || got[tailLines-1] != "  line 9999" || got[0] != "  line 9985" {
		t.Errorf("long: %q", got)
	}
}

func writeAndTail(t *testing.T, path, text string, start int64) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return tail(path, start)
}

func TestChildEnvironmentDropsVariablesOfComponents(t *testing.T) {
	env := childEnvironment([]string{"PATH=/bin", "ETCD_NAME=x", "HOME=/me", "KUBECONFIG=/k", "GOGC=50"}, layout("/d"))
	slices.Sort(env)
	want := []string{"GOGC=50", "HOME=/d", fmt.Sprintf("OPERETTA_CONTROLPLANE_PID=%d", os.Getpid()), "PATH=/bin"}
	if !slices.Equal(env, want) {
		t.Errorf("env = %v, want %v", env, want)
	}
}
