package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder makes a folder with files, each as a name and a text.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	folder := t.TempDir()
	for at := 0; at < len(files); at += 2 {
		file := filepath.Join(folder, files[at])
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(files[at+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func names(t *testing.T, rendered *Rendered) []string {
	t.Helper()
	var names []string
	for _, object := range rendered.Objects {
		var head struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := json.Unmarshal(object.Object, &head); err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.Trim(head.Kind+" "+head.Metadata.Namespace+"/"+head.Metadata.Name, "/"))
	}
	return names
}

func expect(t *testing.T, rendered *Rendered, err error, expected ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, rendered); strings.Join(got, ", ") != strings.Join(expected, ", ") {
		t.Errorf("rendered %q, not %q", got, expected)
	}
}

func expectError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q has no %q", err, part)
		}
	}
}

const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: sa\n"

func TestKustomizationIsRendered(t *testing.T) {
	dir := folder(t,
		"default/kustomization.yaml", "namespace: ns\nnamePrefix: x-\nresources: [../base]\n",
		"base/kustomization.yaml", "resources: [sa.yaml]\n",
		"base/sa.yaml", account)
	render := Render{Kind: "kustomization", Path: filepath.Join(dir, "default")}
	rendered, err := render.objects()
	expect(t, rendered, err, "ServiceAccount ns/x-sa")
}

func TestRemoteEntryIsRefusedAndNamed(t *testing.T) {
	for _, entry := range []string{
		"https://example.com/crd.yaml", "https://github.com/o/r//config?ref=v1", "github.com/o/r/config", "git@github.com:o/r",
		"ssh://git@example.com/o/r",
	} {
		dir := folder(t,
			"default/kustomization.yaml", "resources: [../base]\n",
			"base/kustomization.yml", "resources: [\""+entry+"\"]\n")
		render := Render{Kind: "kustomization", Path: filepath.Join(dir, "default")}
		_, err := render.objects()
		expectError(t, err, entry, "base/kustomization.yml", "operetta fetches nothing", "--manifests")
	}
}

func TestPatchOfAnotherServerIsNotFetched(t *testing.T) {
	dir := folder(t,
		"kustomization.yaml", "resources: [sa.yaml]\npatches:\n- path: https://192.0.2.1/patch.yaml\n",
		"sa.yaml", account)
	render := Render{Kind: "kustomization", Path: dir}
	_, err := render.objects()
	expectError(t, err, "https://192.0.2.1/patch.yaml")
}

func TestChartIsRenderedWithItsValues(t *testing.T) {
	dir := folder(t,
		"Chart.yaml", "apiVersion: v2\nname: op\nversion: 0.1.0\n",
		"values.yaml", "name: default\nmore: {a: 1, b: 1}\n",
		"crds/x.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n",
		"templates/NOTES.txt", "thanks",
		"templates/all.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "+
			"{{ .Release.Name }}-{{ .Values.name }}-{{ .Values.more.a }}{{ .Values.more.b }}\n  namespace: {{ .Release.Namespace }}\n"+
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: nn}\n---\n# nothing\n",
		"templates/hook.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}}\n",
		"one.yaml", "more: {a: 2}\n", "two.yaml", "more: {b: 3}\n")

	render := Render{Kind: "chart", Path: dir, Namespace: "ns"}
	rendered, err := render.objects()
	expect(t, rendered, err, "CustomResourceDefinition /x", "Namespace /nn", "ConfigMap ns/op-default-11")
	if len(rendered.Hooks) != 1 || rendered.Hooks[0].Name != "Job/j" || len(rendered.Hooks[0].Events) != 2 {
		t.Errorf("the hooks are %v", rendered.Hooks)
	}

	render.Values = []string{filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")}
	render.Set = []string{"name=set"}
	render.Release = "r"
	rendered, err = render.objects()
	expect(t, rendered, err, "CustomResourceDefinition /x", "Namespace /nn", "ConfigMap ns/r-set-23")

	render.Set = []string{"a[=1"}
	_, err = render.objects()
	expectError(t, err, "failed to read --set a[=1")
	render.Set, render.Values = nil, []string{filepath.Join(dir, "none.yaml")}
	_, err = render.objects()
	expectError(t, err, "none.yaml")
}

func TestChartThatCannotBeRenderedIsNamed(t *testing.T) {
	chart := func(more, template string) error {
		dir := folder(t, "Chart.yaml", "apiVersion: v2\nname: op\nversion: 0.1.0\n"+more, "templates/a.yaml", template)
		render := Render{Kind: "chart", Path: dir}
		_, err := render.objects()
		return err
	}
	expectError(t, chart("", "{{ required \"give a name\" .Values.name }}"), "give a name", "--set")
	expectError(t, chart("dependencies: [{name: db, version: 1.0.0, repository: x}]\n", account), "depends on db", "helm dependency build")
	expectError(t, chart("kubeVersion: \"<1.20\"\n", account), "is for Kubernetes <1.20")
	expectError(t, chart("", "just a text"), "op/templates/a.yaml")
}

func TestFilesAreReadInOrderAndTextsKept(t *testing.T) {
	dir := folder(t,
		"b.yml", account,
		"a.yaml", "# A comment.\n"+strings.Replace(account, "sa", "first", 1)+"---\n"+
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: \"on\"}}\n",
		"c.json", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}`,
		"d.txt", "no", "below/e.yaml", "no")
	render := Render{Kind: "files", Path: dir}
	rendered, err := render.objects()
	expect(t, rendered, err, "ServiceAccount /first", "Service /on", "ServiceAccount /sa", "Secret /s")
	if text := rendered.Objects[0].Text; !strings.HasPrefix(text, "# A comment.\napiVersion: v1\n") {
		t.Errorf("the text is %q", text)
	}

	for text, part := range map[string]string{
		"a: [":                 "failed to read",
		"name: x\n":            "isn't a Kubernetes object",
		"- a\n":                "isn't a Kubernetes object",
		"kind: X\nmetadata: {": "failed to read",
	} {
		render := Render{Kind: "files", Path: filepath.Join(folder(t, "a.yaml", text), "a.yaml")}
		_, err := render.objects()
		expectError(t, err, part, "a.yaml")
	}
}
