package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	rustaudit "github.com/rust-secure-code/go-rustaudit"
)

var testAbout = about{name: "operetta", version: "1.2.3", revision: strings.Repeat("a", 40), created: time.Unix(1700000000, 0).UTC()}

// testProgram returns the path of a static program: this test.
func testProgram(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// testPrograms returns a folder with static programs: this test, under the names of all.
func testPrograms(t *testing.T) string {
	folder := t.TempDir()
	for _, name := range programNames {
		if err := os.Symlink(testProgram(t), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// buildTest builds the layout of this test's program in a new folder.
func buildTest(t *testing.T) string {
	folder := filepath.Join(t.TempDir(), "image")
	options := buildOptions{output: folder, about: testAbout, development: true}
	options.source = source{repository: "https://example.com/operetta", builder: "https://example.com/ci", profile: "release", materials: []string{"go.sum"}}
	if err := build(options, []string{testPrograms(t)}); err != nil {
		t.Fatal(err)
	}
	return folder
}

func digestOf(t *testing.T, folder string) v1.Hash {
	index, err := readLayout(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatalf("the layout is not valid: %v", err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestSameProgramGivesSameDigest(t *testing.T) {
	if one, other := digestOf(t, buildTest(t)), digestOf(t, buildTest(t)); one != other {
		t.Fatalf("%s, then %s", one, other)
	}
}

func TestRootHasProgramsUserAndAuthorities(t *testing.T) {
	var archive bytes.Buffer
	if err := export(buildTest(t), hostArchitecture, &archive); err != nil {
		t.Fatal(err)
	}
	files := map[string]*tar.Header{}
	contents := map[string][]byte{}
	reader := tar.NewReader(&archive)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := "/" + strings.Trim(header.Name, "/")
		files[path] = header
		if contents[path], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 {
			t.Errorf("%s: others than root may write it: %+v", path, header)
		}
	}
	for _, name := range programNames {
		if program := files["/"+name]; program == nil || program.Mode != 0o755 {
			t.Errorf("%s: %+v", name, program)
		}
	}
	if !strings.Contains(string(contents["/etc/passwd"]), ":65532:65532:") {
		t.Errorf("the user: %s", contents["/etc/passwd"])
	}
	count := 0
	for rest := contents[certificates]; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
	}
	if count < 50 {
		t.Errorf("only %d authorities", count)
	}
}

func TestRefusesProgramsThatDoNotRunAlone(t *testing.T) {
	if _, err := readProgram("/bin/sh", false); err == nil || !strings.Contains(err.Error(), "not a static program") {
		t.Errorf("a dynamic program: %v", err)
	}
	if _, err := readProgram(testProgram(t), false); err == nil || !strings.Contains(err.Error(), "list of its packages") {
		t.Errorf("a program without a list: %v", err)
	}
	if _, err := readProgram("go.mod", false); err == nil {
		t.Error("a text is accepted")
	}
}

func TestSBOMListsLinkedPackages(t *testing.T) {
	packages := []rustaudit.Package{
		{Name: "operetta", Version: "1.2.3", Source: "local", Kind: rustaudit.Runtime, Dependencies: []uint{1, 2}, Root: true},
		{Name: "kube", Version: "5.0.0", Source: "crates.io", Kind: rustaudit.Runtime},
		{Name: "cc", Version: "1.0.0", Source: "crates.io", Kind: rustaudit.Build},
	}
	bom, err := sbom(&program{contents: []byte("x"), packages: packages}, testAbout)
	if err != nil {
		t.Fatal(err)
	}
	if root := bom.Metadata.Component; root.Name != "operetta" || (*root.Hashes)[0].Value != "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" {
		t.Errorf("root: %+v", root)
	}
	if components := *bom.Components; len(components) != 1 || components[0].PackageURL != "pkg:cargo/kube@5.0.0" {
		t.Errorf("components: %+v", components)
	}
	if children := *(*bom.Dependencies)[0].Dependencies; len(children) != 1 || children[0] != "pkg:cargo/kube@5.0.0" {
		t.Errorf("dependencies: %v", children)
	}
	if _, err := sbom(&program{packages: packages[1:]}, testAbout); err == nil {
		t.Error("a list without root is accepted")
	}
}

func TestProvenanceNamesImageAndSources(t *testing.T) {
	folder := buildTest(t)
	text, err := os.ReadFile(folder + ".intoto.json")
	if err != nil {
		t.Fatal(err)
	}
	type descriptor struct {
		Name   string
		Digest map[string]string
	}
	var statement struct {
		PredicateType string
		Subject       []descriptor
		Predicate     struct {
			BuildDefinition struct{ ResolvedDependencies []descriptor }
		}
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	if digest := digestOf(t, folder); statement.Subject[0].Digest["sha256"] != digest.Hex {
		t.Errorf("subject %v, image %s", statement.Subject, digest)
	}
	sources := statement.Predicate.BuildDefinition.ResolvedDependencies
	if len(sources) != 2 || sources[0].Digest["gitCommit"] != testAbout.revision || len(sources[1].Digest["sha256"]) != 64 {
		t.Errorf("sources: %+v", sources)
	}
}

func TestPushedImageHasDigestOfLayout(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	folder := buildTest(t)
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/operetta:1.2.3"
	pushed, err := push(folder, reference)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(parsed)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := pulled.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if digest != digestOf(t, folder) || !strings.HasSuffix(pushed, digest.String()) {
		t.Errorf("pulled %s, pushed %s", digest, pushed)
	}
}

// The last stage of deploy/Dockerfile must make the same image.
func TestDockerfileHasTheSameConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := strings.Split(string(text), "\nFROM ")
	last := stages[len(stages)-1]
	config := config(testAbout.labels("source"))
	expected := []string{"scratch", fmt.Sprintf("ENTRYPOINT [%q]", config.Entrypoint[0]), "USER " + config.User, "WORKDIR " + config.WorkingDir}
	for _, variable := range config.Env {
		expected = append(expected, "ENV "+variable)
	}
	lines := strings.Split(last, "\n")
	for _, line := range expected {
		if !slices.Contains(lines, line) {
			t.Errorf("deploy/Dockerfile's last stage lacks the line %q", line)
		}
	}
	labels := regexp.MustCompile(`(?m)^LABEL (\S+)="(.*)"$`).FindAllStringSubmatch(last, -1)
	if len(labels) != len(config.Labels) {
		t.Errorf("deploy/Dockerfile has %d labels, not %d", len(labels), len(config.Labels))
	}
	for _, label := range labels {
		if value := config.Labels[label[1]]; value == "" || (value != label[2] && !strings.HasPrefix(label[2], "$")) {
			t.Errorf("%s is %q in deploy/Dockerfile, and %q here", label[1], label[2], value)
		}
	}
}
