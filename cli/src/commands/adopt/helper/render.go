package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Render asks for the objects of manifests.
type Render struct {
	// Kind is kustomization, chart or files.
	Kind string `json:"kind"`
	// Path is the folder of a kustomization or a chart, or a file or folder of YAML.
	Path string `json:"path"`
	// Values are the files of `helm --values`, Set the texts of `helm --set`.
	Values []string `json:"values"`
	Set    []string `json:"set"`
	// Release and Namespace are the release's; an empty name is the chart's.
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
}

// Rendered are objects, in the order in which they are to be applied.
type Rendered struct {
	Objects []Object `json:"objects"`
	// Hooks are the objects of a chart that Helm applies by itself, at certain times.
	Hooks []Hook `json:"hooks"`
}

// Object is one Kubernetes object.
type Object struct {
	Object json.RawMessage `json:"object"`
	// Text is its YAML as it was rendered.
	Text string `json:"text"`
}

// Hook is a chart's hook: `Job/create-certificate`, and when Helm applies it.
type Hook struct {
	Name   string   `json:"name"`
	Events []string `json:"events"`
}

func (r *Render) objects() (*Rendered, error) {
	switch r.Kind {
	case "kustomization":
		return r.kustomization()
	case "chart":
		return r.chart()
	case "files":
		return r.files()
	}
	return nil, fmt.Errorf("unknown kind of manifests: %q", r.Kind)
}

var errRemote = errors.New("operetta fetches nothing: copy what the URL names into the repository, " +
	"or render with `kustomize build > manifests.yaml` and pass that file with --manifests")

// noNetwork refuses requests, such as those of kustomize for remote files.
type noNetwork struct{}

func (noNetwork) RoundTrip(request *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is remote, and %w", request.URL.Redacted(), errRemote)
}

func (r *Render) kustomization() (*Rendered, error) {
	if remote := remoteEntry(r.Path, map[string]bool{}); remote != nil {
		return nil, remote
	}
	// The walk above names what it sees; these make sure that nothing else is fetched either.
	// Kustomize clones with the program `git`.
	http.DefaultTransport = noNetwork{}
	if err := os.Setenv("PATH", ""); err != nil {
		return nil, err
	}

	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), r.Path)
	if err != nil {
		return nil, fmt.Errorf("kustomize fails on %s: %w", r.Path, err)
	}

	rendered := &Rendered{}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		if err := rendered.add(r.Path, string(text)); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// kustomizationFiles are the names that kustomize looks for.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// remoteEntry is the error about the first entry of a kustomization, or of one that it includes, that
// names something remote. What can't be read is left to kustomize.
func remoteEntry(folder string, seen map[string]bool) error {
	folder = filepath.Clean(folder)
	if seen[folder] {
		return nil
	}
	seen[folder] = true

	for _, name := range kustomizationFiles {
		file := filepath.Join(folder, name)
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var kustomization struct {
			Resources, Bases, Components []string
		}
		if yaml.Unmarshal(text, &kustomization) != nil {
			continue
		}

		for _, entry := range slices.Concat(kustomization.Resources, kustomization.Bases, kustomization.Components) {
			local := filepath.Join(folder, entry)
			if _, err := os.Stat(local); err == nil {
				if err := remoteEntry(local, seen); err != nil {
					return err
				}
			} else if isRemote(entry) {
				return fmt.Errorf("%s includes %s, which is remote, and %w", file, entry, errRemote)
			}
		}
	}
	return nil
}

// isRemote reports whether kustomize would take an entry for a URL or a repository:
// https://github.com/kubernetes-sigs/kustomize/blob/master/examples/remoteBuild.md
func isRemote(entry string) bool {
	return strings.Contains(entry, "://") || strings.HasPrefix(entry, "git@") ||
		strings.HasPrefix(entry, "github.com/") || strings.Contains(entry, "?ref=")
}

// kubeVersion is the version of Kubernetes that charts are rendered for: that of the k8s.io modules.
const kubeVersion = "v1.34.0"

func (r *Render) chart() (*Rendered, error) {
	loaded, err := loader.Load(r.Path)
	if err != nil {
		return nil, fmt.Errorf("failed to read the chart %s: %w", r.Path, err)
	}
	for _, dependency := range loaded.Metadata.Dependencies {
		isIt := func(c *chart.Chart) bool { return c.Name() == dependency.Name }
		if !slices.ContainsFunc(loaded.Dependencies(), isIt) {
			return nil, fmt.Errorf("the chart %s depends on %s, which is not in its folder charts/: run `helm dependency build %s` first",
				r.Path, dependency.Name, r.Path)
		}
	}

	values, err := r.values()
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(loaded, values); err != nil {
		return nil, fmt.Errorf("failed to read the dependencies of the chart %s: %w", r.Path, err)
	}

	release := chartutil.ReleaseOptions{Name: r.Release, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	if release.Name == "" {
		release.Name = loaded.Name()
	}
	// Helm's own builds set the version by a flag of the linker; without, it is 1.20.
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	if constraint := loaded.Metadata.KubeVersion; constraint != "" && !chartutil.IsCompatibleRange(constraint, kubeVersion) {
		return nil, fmt.Errorf("the chart %s is for Kubernetes %s, but is rendered for %s", r.Path, constraint, kubeVersion)
	}
	top, err := chartutil.ToRenderValues(loaded, values, release, capabilities)
	if err != nil {
		return nil, fmt.Errorf("the chart %s refuses its values: %w", r.Path, err)
	}
	templates, err := engine.Render(loaded, top)
	if err != nil {
		return nil, fmt.Errorf("the chart %s can't be rendered; pass values that it needs with --set or --values: %w", r.Path, err)
	}
	for name := range templates {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(templates, name)
		}
	}

	hooks, manifests, err := releaseutil.SortManifests(templates, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("the chart %s renders something that isn't an object: %w", r.Path, err)
	}

	rendered := &Rendered{}
	for _, definition := range loaded.CRDObjects() {
		if err := rendered.addAll(definition.Filename, bytes.NewReader(definition.File.Data)); err != nil {
			return nil, err
		}
	}
	for _, manifest := range manifests {
		if err := rendered.addAll(manifest.Name, strings.NewReader(manifest.Content)); err != nil {
			return nil, err
		}
	}
	for _, hook := range hooks {
		events := make([]string, 0, len(hook.Events))
		for _, event := range hook.Events {
			events = append(events, event.String())
		}
		rendered.Hooks = append(rendered.Hooks, Hook{Name: hook.Kind + "/" + hook.Name, Events: events})
	}
	sort.Slice(rendered.Hooks, func(a, b int) bool { return rendered.Hooks[a].Name < rendered.Hooks[b].Name })
	return rendered, nil
}

// values are those of the files, each on top of the ones before, and then those of Set.
func (r *Render) values() (map[string]any, error) {
	values := map[string]any{}
	for _, file := range r.Values {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("failed to read the values in %s: %w", file, err)
		}
		values = chartutil.MergeTables(more, values)
	}
	for _, text := range r.Set {
		if err := strvals.ParseInto(text, values); err != nil {
			return nil, fmt.Errorf("failed to read --set %s: %w", text, err)
		}
	}
	return values, nil
}

func (r *Render) files() (*Rendered, error) {
	names := []string{r.Path}
	if info, err := os.Stat(r.Path); err != nil {
		return nil, err
	} else if info.IsDir() {
		names = nil
		entries, err := os.ReadDir(r.Path)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
				names = append(names, filepath.Join(r.Path, entry.Name()))
			}
		}
	}

	rendered := &Rendered{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := rendered.addAll(name, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// addAll adds the documents of a file.
func (r *Rendered) addAll(file string, text io.Reader) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(text))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", file, err)
		}
		if err := r.add(file, string(document)); err != nil {
			return err
		}
	}
}

// add adds the object of a document, or those of a List. An empty document has none.
func (r *Rendered) add(file, text string) error {
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return fmt.Errorf("failed to read %s: %w", file, err)
	}
	if string(object) == "null" {
		return nil
	}

	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(object, &head); err != nil || head.APIVersion == "" || head.Kind == "" {
		return fmt.Errorf("a document in %s isn't a Kubernetes object: it lacks apiVersion or kind", file)
	}
	if head.Kind != "List" {
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "---")) + "\n"
		r.Objects = append(r.Objects, Object{Object: object, Text: text})
		return nil
	}

	for _, item := range head.Items {
		text, err := yaml.JSONToYAML(item)
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", file, err)
		}
		if err := r.add(file, string(text)); err != nil {
			return err
		}
	}
	return nil
}
