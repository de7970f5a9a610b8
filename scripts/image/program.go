package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	rustaudit "github.com/rust-secure-code/go-rustaudit"
)

// hostArchitecture is the architecture of this machine, as images name it.
const hostArchitecture = runtime.GOARCH

// program is a built program, read completely: what is checked is what goes into the image.
type program struct {
	name         string
	contents     []byte
	architecture string
	// The packages in the program, as cargo-auditable records them. Nil if it has no list.
	packages []rustaudit.Package
}

// readPrograms reads the programs of an image from a folder. They must be for the same architecture.
func readPrograms(folder string, development bool) ([]*program, error) {
	var programs []*program
	for _, name := range programNames {
		program, err := readProgram(filepath.Join(folder, name), development)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	for _, program := range programs {
		if program.architecture != programs[0].architecture {
			return nil, fmt.Errorf("%s: %s is for %s, and %s for %s", folder, programs[0].name, programs[0].architecture, program.name, program.architecture)
		}
	}
	return programs, nil
}

// readProgram reads an ELF program. Without development it must be static and list its packages.
func readProgram(path string, development bool) (*program, error) {
	contents, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := elf.NewFile(bytes.NewReader(contents))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	architectures := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}
	architecture, known := architectures[file.Machine]
	if !known {
		return nil, fmt.Errorf("%s: no image is built for %s", path, file.Machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP && !development {
			return nil, fmt.Errorf("%s: not a static program: the image has no shared libraries", path)
		}
	}
	info, err := rustaudit.GetDependencyInfo(bytes.NewReader(contents))
	if err != nil && !(development && errors.Is(err, rustaudit.ErrNoRustDepInfo)) {
		return nil, fmt.Errorf("%s: failed to read the list of its packages: %w", path, err)
	}
	return &program{name: filepath.Base(path), contents: contents, architecture: architecture, packages: info.Packages}, nil
}
