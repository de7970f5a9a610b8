package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// found looks through one file and returns `need what line path` of each use.
func found(t *testing.T, code string, dialing ...string) []string {
	t.Helper()
	dir := folder(t, "a.go", code)
	needs := Needs{Packages: []Package{{Dir: dir, Files: []string{"a.go"}}}, Dialing: dialing}
	uses, err := needs.uses()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, use := range uses {
		if use.File != filepath.Join(dir, "a.go") {
			t.Errorf("the file is %s", use.File)
		}
		line := fmt.Sprintf("%s %s %d", use.Need, use.What, use.Line)
		if use.Path != "" {
			line += " " + use.Path
		}
		lines = append(lines, line)
	}
	return lines
}

func TestUsesAreFoundByImportAndName(t *testing.T) {
	for code, expected := range map[string][]string{
		"package a\nimport \"net/http\"\nvar c http.Client\nvar h http.Handler\n":            {"network http.Client 3"},
		"package a\nimport web \"net/http\"\nvar _, _ = web.Get(\"x\")\n":                    {"network http.Get 3"},
		"package a\nimport \"os/exec\"\nfunc f() { exec.Command(\"x\") }\n":                  {"subprocesses exec.Command 3"},
		"package a\nimport \"x.io/http\"\nvar _ = http.Get\n":                                nil,
		"package a\nimport \"net/http\"\nfunc f(http t) { http.Get() }\nvar _ http.Header\n": nil,
		"package a\nimport \"database/sql\"\nvar _, _ = sql.Open(\"a\", \"b\")\n":            {"network sql.Open 3"},
		"package a\nimport \"net\"\nvar _, _ = net.ListenUDP(\"a\", nil)\n":                  {"udp net.ListenUDP 3"},
		"package a\nimport \"C\"\n":                                                                            {"cgo import \"C\" 2"},
		"package a\nimport \"plugin\"\nvar _ plugin.Plugin\n":                                                  {"plugins import \"plugin\" 2"},
		"package a\nimport x \"k8s.io/client-go/tools/remotecommand\"\nvar _ = x.NewSPDYExecutor\n":            {"exec remotecommand.NewSPDYExecutor 3"},
		"package a\nimport ctrl \"sigs.k8s.io/controller-runtime\"\nfunc f() { ctrl.NewWebhookManagedBy(m) }":  {"webhooks controller-runtime.NewWebhookManagedBy 3"},
		"package a\nimport w \"sigs.k8s.io/controller-runtime/pkg/webhook\"\nvar _ = w.NewServer(w.Options{})": nil,
		"package a\nfunc f() { x.SetupWebhookWithManager(mgr); mgr.GetWebhookServer().Register() }":            {"webhooks SetupWebhookWithManager 2", "webhooks GetWebhookServer 2"},
		"package a\ntype T struct{}\nfunc (*T) Hub() {}\nfunc Hub() {}\n":                                      {"conversion Hub 3"},
		"package a\nfunc (t *T) SetupWebhookWithManager() {}\n":                                                nil,
	} {
		if got := found(t, code); !slices.Equal(got, expected) {
			t.Errorf("%s\nfound %q, not %q", code, got, expected)
		}
	}
}

func TestFilesThatAreOpenedHaveTheirPaths(t *testing.T) {
	code := `package a
import (
	"os"
	"path/filepath"
)
const folder = "/etc/op"
func f(name string) {
	os.ReadFile("/a")
	os.ReadFile(folder + "/b")
	os.Open(filepath.Join(folder, "c", "d"))
	os.Create(name)
	os.MkdirTemp("", "x")
	os.ReadDir(filepath.Join(folder, name))
	os.Getenv("x")
}
`
	expected := []string{
		"files os.ReadFile 8 /a", "files os.ReadFile 9 /etc/op/b", "files os.Open 10 /etc/op/c/d", "files os.Create 11",
		"files os.MkdirTemp 12 /tmp", "files os.ReadDir 13",
	}
	if got := found(t, code); !slices.Equal(got, expected) {
		t.Errorf("found %q", got)
	}
}

func TestLibrariesAndFilesWithoutCgoAreNamed(t *testing.T) {
	if got := found(t, "package a\nimport _ \"db.io/driver/v2\"\n", "db.io/driver/v2"); !slices.Equal(got, []string{"libraries db.io/driver/v2 2"}) {
		t.Errorf("found %q", got)
	}

	dir := folder(t, "a.go", "package a\n", "c.go", "package a\nimport \"C\"\nimport \"os/exec\"\n", "broken.go", "pack")
	needs := Needs{Packages: []Package{{Dir: dir, Files: []string{"a.go"}, Ignored: []string{"c.go", "broken.go"}}}}
	uses, err := needs.uses()
	if err != nil || len(uses) != 1 || uses[0].Need != "cgo" {
		t.Errorf("found %v, %v", uses, err)
	}

	needs.Packages[0].Files = []string{"broken.go"}
	_, err = needs.uses()
	expectError(t, err, "broken.go", "failed to parse the operator's code")
}
