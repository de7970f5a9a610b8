// Slim reduces the size of a plugin that uses controller-runtime.
//
// A program that imports client-go links all versions of all API groups, and their protobuf code. A plugin uses JSON
// only, and few kinds. Slim copies the packages of client-go, apimachinery, api and apiextensions-apiserver that the
// program uses into a folder. It leaves out protobuf and the API groups that only client-go imports, and writes a
// go.mod that replaces the modules with the copies:
//
//	go run operetta.dev/sdk-go/controllerruntime/cmd/slim build/slim
//	GOOS=wasip1 GOARCH=wasm go build -modfile=build/slim/go.mod …
//
// Run it in the folder of package main. It does not change the sources, so `go test` and `go vet` work as before. Slim
// is optional: without it the program is larger. If a module's file has an unexpected form, slim warns and copies the
// whole file.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	clientGo      = "k8s.io/client-go"
	apimachinery  = "k8s.io/apimachinery"
	api           = "k8s.io/api"
	apiextensions = "k8s.io/apiextensions-apiserver"
)

// pkg is a package as `go list` describes it.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	EmbedFiles []string
	SFiles     []string
	Imports    []string
	Module     *struct{ Path, Dir, GoMod string }
}

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: slim FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "slim:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	packages, err := list()
	if err != nil {
		return err
	}
	edits := editsFor(groupsOf(packages))
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, of := range packages {
		if !ours(of) {
			continue
		}
		if err := copyPackage(of, out, edits); err != nil {
			return err
		}
	}
	return writeModule(out, packages)
}

func ours(of pkg) bool {
	return of.Module != nil && slices.Contains([]string{clientGo, apimachinery, api, apiextensions}, of.Module.Path)
}

// list returns the packages of the program, built as a plugin.
func list() ([]pkg, error) {
	command := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,EmbedFiles,SFiles,Imports,Module", ".")
	command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	for {
		var of pkg
		err := decoder.Decode(&of)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		packages = append(packages, of)
	}
}

// groupsOf returns the API groups that the program or a library imports, as `apps/v1`. Imports by client-go do not
// count, except the groups of its events and leases.
func groupsOf(packages []pkg) map[string]bool {
	groups := map[string]bool{"core/v1": true, "events/v1": true, "coordination/v1": true}
	for _, of := range packages {
		if of.Module == nil || of.Module.Path == clientGo || of.Module.Path == api {
			continue
		}
		for _, path := range of.Imports {
			if group, found := strings.CutPrefix(path, api+"/"); found {
				groups[group] = true
			}
		}
	}
	return groups
}

func copyPackage(of pkg, out string, edits map[string]edit) error {
	name := filepath.Base(of.Module.Path)
	inside, err := filepath.Rel(of.Module.Dir, of.Dir)
	if err != nil {
		return err
	}
	to := filepath.Join(out, name, inside)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, files := range [][]string{of.GoFiles, of.EmbedFiles, of.SFiles} {
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(of.Dir, file))
			if err != nil {
				return err
			}
			change, found := edits[of.ImportPath+"/"+file]
			if file == "generated.pb.go" && of.Module.Path != apimachinery {
				change, found = stringsOnly, true
			}
			if found {
				changed, err := change(string(text))
				if err != nil {
					fmt.Fprintf(os.Stderr, "slim: %s/%s stays whole: %v\n", of.ImportPath, file, err)
				} else if changed == "" {
					continue
				} else {
					text = []byte(changed)
				}
			}
			at := filepath.Join(to, file)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(at, text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeModule writes OUT/go.mod and OUT/go.sum: the program's own, with replace directives for the copied modules.
func writeModule(out string, packages []pkg) error {
	var goMod string
	replaced := map[string]bool{}
	for _, of := range packages {
		if of.Module == nil {
			continue
		}
		goMod = of.Module.GoMod // the last package is the program's
		if !ours(of) || replaced[of.Module.Path] {
			continue
		}
		replaced[of.Module.Path] = true
		text, err := os.ReadFile(of.Module.GoMod)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, filepath.Base(of.Module.Path), "go.mod"), text, 0o644); err != nil {
			return err
		}
	}
	if len(replaced) == 0 {
		return errors.New("this program does not import k8s.io/client-go: build it as it is")
	}
	root := filepath.Dir(goMod)
	absolute, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(root, absolute)
	if err != nil {
		return err
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, file), text, 0o644); err != nil {
			return err
		}
	}
	arguments := []string{"mod", "edit"}
	for path := range replaced {
		copied := "./" + filepath.ToSlash(filepath.Join(inside, filepath.Base(path)))
		arguments = append(arguments, "-dropreplace="+path, "-replace="+path+"="+copied)
	}
	command := exec.Command("go", append(arguments, filepath.Join(out, "go.mod"))...)
	command.Stderr = os.Stderr
	return command.Run()
}
