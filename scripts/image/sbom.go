package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	rustaudit "github.com/rust-secure-code/go-rustaudit"
)

// reference returns the package URL of a package, which is also its name within the SBOM.
func reference(pkg rustaudit.Package) string {
	return fmt.Sprintf("pkg:cargo/%s@%s", pkg.Name, pkg.Version)
}

// sbom lists the packages that are linked into a program, and what depends on what. Packages that only its build used are
// not in the program.
func sbom(program *program, about about) (*cyclonedx.BOM, error) {
	bom := cyclonedx.NewBOM()
	components := []cyclonedx.Component{}
	dependencies := []cyclonedx.Dependency{}
	var root *cyclonedx.Component
	for _, pkg := range program.packages {
		if pkg.Kind == rustaudit.Build {
			continue
		}
		component := cyclonedx.Component{
			BOMRef:     reference(pkg),
			Type:       cyclonedx.ComponentTypeLibrary,
			Name:       pkg.Name,
			Version:    pkg.Version,
			PackageURL: reference(pkg),
			Properties: &[]cyclonedx.Property{{Name: "cargo:source", Value: pkg.Source}},
		}
		children := []string{}
		for _, child := range pkg.Dependencies {
			if of := program.packages[child]; of.Kind != rustaudit.Build {
				children = append(children, reference(of))
			}
		}
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: reference(pkg), Dependencies: &children})
		if !pkg.Root {
			components = append(components, component)
			continue
		}
		digest := sha256.Sum256(program.contents)
		component.Type = cyclonedx.ComponentTypeApplication
		component.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}}
		component.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
		root = &component
	}
	if root == nil {
		return nil, fmt.Errorf("the list of packages has no root")
	}
	bom.Metadata = &cyclonedx.Metadata{Timestamp: about.created.Format(time.RFC3339), Component: root}
	bom.Components = &components
	bom.Dependencies = &dependencies
	return bom, nil
}

// writeSBOM writes the SBOM of a program as CycloneDX JSON.
func writeSBOM(path string, program *program, about about) error {
	bom, err := sbom(program, about)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.Encode(bom); err != nil {
		return err
	}
	return file.Close()
}
