package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user is the ID of the user and the group, that of distroless' `nonroot`; deploy/base has it, too.
	user = "65532"
	// certificates is where TLS libraries look for the authorities that they trust.
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	// hostName is the program that a container runs. It starts compilerName, which it looks for in its own folder.
	hostName     = "operetta-host"
	compilerName = "operetta-compiler"
)

// programNames are the files of the programs, at the image's root.
var programNames = []string{hostName, compilerName}

// entry is a file of the image or, if its path ends with a slash, a folder. All belong to root.
type entry struct {
	path     string
	mode     int64
	contents []byte
}

// rootFiles returns the files beside the programs: a parent comes before its children.
func rootFiles() []entry {
	return []entry{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, contents: []byte("root:x:0:\nnonroot:x:" + user + ":\n")},
		{path: "etc/passwd", mode: 0o644, contents: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + user + ":" + user + ":nonroot:/:/sbin/nologin\n")},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: certificates[1:], mode: 0o644, contents: authorities()},
	}
}

// authorities returns Mozilla's root certificates as PEM. Those that Mozilla trusts for older certificates only are left
// out, because a PEM file cannot say so.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer does not fail.
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}

// writeRoot writes the files beside the programs into a folder.
func writeRoot(folder string) error {
	for _, entry := range rootFiles() {
		path := filepath.Join(folder, entry.path)
		var err error
		if entry.contents == nil {
			err = os.MkdirAll(path, os.FileMode(entry.mode))
		} else {
			err = os.WriteFile(path, entry.contents, os.FileMode(entry.mode))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layer packs files into a layer, with a level of gzip. All have the same time, so that the layer depends on their contents only.
func layer(entries []entry, modified time.Time, level int) (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, entry := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: entry.path, Mode: entry.mode, Size: int64(len(entry.contents)), ModTime: modified, Format: tar.FormatPAX}
		if entry.contents == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(entry.contents); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(level), tarball.WithCompressedCaching)
}
