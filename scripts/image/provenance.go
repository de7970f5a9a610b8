package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	attestation "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// buildType says how to read the parameters: `profile` is cargo's, and `make image` runs the build.
const buildType = "https://operetta.dev/make-image/v1"

// source says what the programs were built from, and by whom.
type source struct {
	repository string
	builder    string
	profile    string
	// Files whose digests determine the dependencies, such as Cargo.lock.
	materials []string
}

// statement returns the in-toto statement about the image with a digest: a SLSA provenance. It is not signed. If the revision
// ends with -dirty, the tree differed from the commit.
func statement(digest v1.Hash, about about, source source) (*attestation.Statement, error) {
	dependencies := []*attestation.ResourceDescriptor{}
	if commit, changed := strings.CutSuffix(about.revision, "-dirty"); commit != "" {
		annotations, err := structpb.NewStruct(map[string]any{"dirty": changed})
		if err != nil {
			return nil, err
		}
		dependencies = append(dependencies, &attestation.ResourceDescriptor{
			Name:        "source",
			Uri:         "git+" + source.repository,
			Digest:      map[string]string{"gitCommit": commit},
			Annotations: annotations,
		})
	}
	for _, path := range source.materials {
		contents, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(contents)
		dependencies = append(dependencies, &attestation.ResourceDescriptor{
			Name:   filepath.ToSlash(path),
			Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])},
		})
	}
	parameters, err := structpb.NewStruct(map[string]any{"profile": source.profile, "version": about.version})
	if err != nil {
		return nil, err
	}
	predicate := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:            buildType,
			ExternalParameters:   parameters,
			ResolvedDependencies: dependencies,
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: source.builder}},
	}
	if err := predicate.Validate(); err != nil {
		return nil, fmt.Errorf("the provenance is incomplete: %w", err)
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	fields := &structpb.Struct{}
	if err := protojson.Unmarshal(text, fields); err != nil {
		return nil, err
	}
	statement := &attestation.Statement{
		Type: attestation.StatementTypeUri,
		Subject: []*attestation.ResourceDescriptor{
			{Name: about.name, Digest: map[string]string{digest.Algorithm: digest.Hex}},
		},
		PredicateType: "https://slsa.dev/provenance/v1",
		Predicate:     fields,
	}
	return statement, statement.Validate()
}

// writeProvenance writes the statement as JSON.
func writeProvenance(path string, digest v1.Hash, about about, source source) error {
	statement, err := statement(digest, about, source)
	if err != nil {
		return err
	}
	text, err := protojson.Marshal(statement)
	if err != nil {
		return err
	}
	// protojson varies its white space on purpose.
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	return os.WriteFile(path, out.Bytes(), 0o644)
}
