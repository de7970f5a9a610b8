// Package stages embeds kwok's configuration as a kubelet for tests: its stages,
// which make Nodes, Pods and volumes ready at once, and the two objects it needs.
//
// stage/ and objects/storage-class.yaml are copies of kwok's own files
// (sigs.k8s.io/kwok v0.8.0, kustomize/stage/{node,pod,volume}/fast, Apache-2.0).
// Update them together with the version in go.mod.
package stages

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed stage/*.yaml
var stageFiles embed.FS

// Node is the Node object that kwok simulates.
//
//go:embed objects/node.yaml
var Node []byte

// StorageClass is the default class, whose claims kwok's volume stages bind.
//
//go:embed objects/storage-class.yaml
var StorageClass []byte

// Config returns all stages as one YAML stream for kwok's --config.
func Config() ([]byte, error) {
	var all strings.Builder
	err := fs.WalkDir(stageFiles, "stage", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := stageFiles.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n%s", text)
		return nil
	})
	return []byte(all.String()), err
}
