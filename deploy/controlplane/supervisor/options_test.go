package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWithAddsProgramsInStartingOrder(t *testing.T) {
	o, err := parseOptions([]string{"--dir", "d", "--with", "kwok, controllers", "--with=scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{etcd, apiserver, controller, scheduler, kwok}
	if got := o.programs(); !slices.Equal(got, want) {
		t.Errorf("programs = %v, want %v", got, want)
	}
}

func TestPathsBecomeAbsolute(t *testing.T) {
	o, err := parseOptions([]string{"--dir=d", "--authorization-config=a.yaml", "--egress-selector-config=e.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{o.dir, o.authorization, o.egress} {
		if !filepath.IsAbs(path) {
			t.Errorf("%q is not absolute", path)
		}
	}
}

func TestOnlyServersRunWithoutWith(t *testing.T) {
	for _, args := range [][]string{{"--dir=d"}, {"--dir=d", "--with="}} {
		o, err := parseOptions(args)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.programs(); !slices.Equal(got, []string{etcd, apiserver}) {
			t.Errorf("%v: programs = %v", args, got)
		}
	}
}

func TestParseOptionsNamesWrongArgument(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{}, "--dir"},
		{[]string{"--dir=d", "--with=kubelet"}, "kubelet"},
		{[]string{"--dir=d", "--port=70000"}, "70000"},
		{[]string{"--dir=d", "--port=-1"}, "-1"},
		{[]string{"--dir=d", "--timeout=0s"}, "--timeout"},
		{[]string{"--dir=d", "more"}, "more"},
		{[]string{"--dir=d", "--verbose"}, "verbose"},
	} {
		_, err := parseOptions(test.args)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: error %v, want it to mention %q", test.args, err, test.says)
		}
	}
}

func TestHelpExitsWithZero(t *testing.T) {
	if _, err := parseOptions([]string{"--help"}); !errors.Is(err, errHelp) {
		t.Errorf("error %v, want errHelp", err)
	}
	for _, args := range [][]string{{"controlplane", "help"}, {"controlplane", "up", "--help"}} {
		if code := Main(args); code != exitDone {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	for _, args := range [][]string{{"controlplane"}, {"controlplane", "sideways"}, {"controlplane", "down"}, {"controlplane", "down", "--dir=d", "x"}, {"controlplane", "up"}} {
		if code := Main(args); code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// folderOf returns a new folder with executables of these names.
func folderOf(t *testing.T, programs ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(folder, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestFindAssetsPrefersFlagThenEnvironmentThenOwnFolder(t *testing.T) {
	flag, env := folderOf(t, etcd, apiserver), folderOf(t, etcd, apiserver)
	own := folderOf(t, etcd, apiserver, "controlplane")
	program := filepath.Join(own, "controlplane")

	for _, test := range []struct{ name, flag, env, want string }{
		{"flag", flag, env, flag},
		{"environment", "", env, env},
		{"own folder", "", "", own},
	} {
		t.Setenv("KUBEBUILDER_ASSETS", test.env)
		if got, err := findAssets(options{assets: test.flag}, program); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}
}

func TestFindAssetsUsesFolderOfSymlinks(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	links, target := t.TempDir(), folderOf(t, "multicall")
	for _, name := range []string{etcd, apiserver, "controlplane"} {
		if err := os.Symlink(filepath.Join(target, "multicall"), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findAssets(options{}, filepath.Join(links, "controlplane"))
	if err != nil || got != links {
		t.Errorf("%q, %v; want %q", got, err, links)
	}
}

func TestFindAssetsNamesMissingPrograms(t *testing.T) {
	upstream := folderOf(t, etcd, apiserver, "kubectl")
	o := options{assets: upstream, with: map[string]bool{controller: true, kwok: true}}
	_, err := findAssets(o, "controlplane")
	if err == nil || !strings.Contains(err.Error(), "has no kube-controller-manager, kwok") {
		t.Errorf("error %v, want it to name what is missing", err)
	}
}
