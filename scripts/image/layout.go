package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// about describes the image in its labels.
type about struct {
	name     string
	version  string
	revision string
	created  time.Time
}

// buildOptions are the arguments of `build`.
type buildOptions struct {
	output      string
	about       about
	source      source
	development bool
}

// labels returns the pre-defined annotation keys of the OCI image specification.
func (about about) labels(source string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "operetta",
		"org.opencontainers.image.description": "Runs WebAssembly plugins as Kubernetes controllers",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     about.version,
		"org.opencontainers.image.created":     about.created.Format(time.RFC3339),
	}
	for name, value := range map[string]string{"revision": about.revision, "source": source} {
		if value != "" {
			labels["org.opencontainers.image."+name] = value
		}
	}
	return labels
}

// config returns the configuration of a container of the image.
func config(labels map[string]string) v1.Config {
	return v1.Config{
		User:       user + ":" + user,
		Env:        []string{"PATH=/", "SSL_CERT_FILE=" + certificates},
		Entrypoint: []string{"/" + hostName},
		WorkingDir: "/",
		Labels:     labels,
	}
}

// assemble returns the image of the programs of one architecture.
func assemble(programs []*program, options buildOptions) (v1.Image, error) {
	var files []entry
	for _, program := range programs {
		files = append(files, entry{path: program.name, mode: 0o755, contents: program.contents})
	}

	about := options.about
	labels := about.labels(options.source.repository)
	level := gzip.BestCompression
	if options.development {
		level = gzip.BestSpeed
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: programs[0].architecture,
		OS:           "linux",
		Created:      v1.Time{Time: about.created},
		Config:       config(labels),
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		comment string
		entries []entry
	}{
		{"CA certificates and the user", rootFiles()},
		{"the programs", files},
	} {
		layer, err := layer(part.entries, about.created, level)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: about.created}, CreatedBy: "oci-image", Comment: part.comment}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history})
		if err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(image, labels).(v1.Image), nil
}

// build writes the layout of an image for each folder of programs, in one index, with the SBOMs and the provenance beside it.
func build(options buildOptions, folders []string) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	seen := map[string]bool{}
	for _, folder := range folders {
		programs, err := readPrograms(folder, options.development)
		if err != nil {
			return err
		}
		architecture := programs[0].architecture
		if seen[architecture] {
			return fmt.Errorf("%s: there is another folder for %s", folder, architecture)
		}
		seen[architecture] = true
		image, err := assemble(programs, options)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		platform := &v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		for _, program := range programs {
			if program.packages == nil {
				continue
			}
			path := options.output + "-" + architecture + "-" + program.name + ".cdx.json"
			if err := writeSBOM(path, program, options.about); err != nil {
				return err
			}
		}
	}
	index = mutate.Annotations(index, options.about.labels(options.source.repository)).(v1.ImageIndex)
	if err := writeLayout(options.output, index, options.about); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := writeProvenance(options.output+".intoto.json", digest, options.about, options.source); err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", options.about.name, digest)
	return nil
}

// writeLayout writes the index into a new layout, named by the annotation that `podman` and `skopeo` read.
func writeLayout(folder string, index v1.ImageIndex, about about) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": about.name + ":" + about.version,
	}))
}

// readLayout returns the index that `build` wrote.
func readLayout(folder string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s: has %d images, not one", folder, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// export writes the root file system of an architecture's image as a tar archive.
func export(folder, architecture string, out io.Writer) error {
	index, err := readLayout(folder)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	var found []string
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform.Architecture == architecture {
			image, err := index.Image(descriptor.Digest)
			if err != nil {
				return err
			}
			archive := mutate.Extract(image)
			defer archive.Close()
			_, err = io.Copy(out, archive)
			return err
		}
		found = append(found, descriptor.Platform.Architecture)
	}
	return fmt.Errorf("%s: no image for %s, only for %s", folder, architecture, strings.Join(found, ", "))
}
