package operetta_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/operettatest"
)

// mapping returns a plugin whose function maps a ConfigMap to the keys that data.word names.
func mapping(keys func(*ConfigMap) []operetta.Key) *operetta.Plugin {
	return operetta.NewPlugin(operetta.NewController("maps", operetta.OfKind(operetta.GVK("v1", "Secret")), nil).
		Watches(operetta.Of[ConfigMap]().WithPruned(".metadata.annotations").WithPruned(".binaryData"), operetta.ToKeys(keys)))
}

func named(of *ConfigMap) []operetta.Key {
	if of.Data["word"] == "panic" {
		panic("no keys today")
	}
	return []operetta.Key{{Namespace: of.Namespace, Name: of.Data["word"]}}
}

// event returns the change of a ConfigMap from the word `old`, if it is not empty, to `now`.
func event(t *testing.T, now, old string) operetta.MapEvent {
	t.Helper()
	text := func(word string) []byte {
		if word == "" {
			return nil
		}
		text, err := json.Marshal(configMap(at, word))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return operetta.MapEvent{
		Controller: "maps", Kind: operetta.GVK("v1", "ConfigMap"), Key: at, Change: operetta.Modified, Object: text(now), Old: text(old),
	}
}

func TestMapEventReturnsKeysOfBothStatesOnce(t *testing.T) {
	plugin := mapping(named)
	for _, one := range []struct{ now, old, want string }{
		{"a", "", "[ns/a]"}, {"b", "a", "[ns/b ns/a]"}, {"a", "a", "[ns/a]"},
	} {
		keys, err := plugin.MapEvent(operettatest.New(t), event(t, one.now, one.old))
		if got := fmt.Sprint(keys); err != nil || got != one.want {
			t.Errorf("from %q to %q: got %s, %v, want %s", one.old, one.now, got, err, one.want)
		}
	}
	other := event(t, "a", "")
	other.Kind = operetta.GVK("v1", "Pod")
	if keys, err := plugin.MapEvent(operettatest.New(t), other); err != nil || len(keys) != 0 {
		t.Errorf("the event of an unwatched kind: got %v, %v", keys, err)
	}
}

func TestFailedMappingIsAnError(t *testing.T) {
	malformed, unknown := event(t, "a", ""), event(t, "a", "")
	malformed.Object = []byte(`{"data":1}`)
	unknown.Controller = "other"
	for want, event := range map[string]operetta.MapEvent{
		"panic: no keys today at ":             event(t, "panic", ""),
		"does not fit the type":                malformed,
		`the plugin has no controller "other"`: unknown,
	} {
		if _, err := mapping(named).MapEvent(operettatest.New(t), event); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestManifestHasCustomMappingAndPrunedFields(t *testing.T) {
	got, err := mapping(named).Describe()
	want := `"watches":[{"source":{"apiVersion":"v1","kind":"ConfigMap","prune":[".metadata.annotations",".binaryData"]},"map":{"type":"Custom"}}]`
	if err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	wrong := operetta.NewController("maps", operetta.Of[ConfigMap](), nil).
		Watches(operetta.OfKind(operetta.GVK("v1", "Pod")), operetta.ToKeys(named))
	want = `controller "maps" watches v1 Pod, but its function maps v1 ConfigMap`
	if _, err := operetta.NewPlugin(wrong).Describe(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestToKeysMapsKindsWithoutGoType(t *testing.T) {
	pods := operetta.GVK("v1", "Pod")
	keys := operetta.ToKeys(func(pod *operetta.Unstructured) []operetta.Key {
		return []operetta.Key{{Name: fmt.Sprint(pod.Fields["spec"].(map[string]any)["nodeName"])}}
	})
	plugin := operetta.NewPlugin(operetta.NewController("nodes", operetta.OfKind(operetta.GVK("v1", "Node")), nil).
		Watches(operetta.OfKind(pods), keys))
	if _, err := plugin.Describe(); err != nil {
		t.Fatal(err)
	}
	event := operetta.MapEvent{
		Controller: "nodes", Kind: pods, Object: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n"}}`),
	}
	if got, err := plugin.MapEvent(operettatest.New(t), event); err != nil || fmt.Sprint(got) != "[n]" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestIndexesByLabelAndController(t *testing.T) {
	owner := operetta.GVK("apps/v1", "ReplicaSet")
	maps := operetta.KindOf[ConfigMap]()
	cluster := operettatest.New(t)
	for name, metadata := range map[string]string{
		"a":     `"labels":{"app.io/name":"web"}`,
		"b":     `"ownerReferences":[{"apiVersion":"apps/v1beta1","kind":"ReplicaSet","name":"web","uid":"1","controller":true}]`,
		"other": `"ownerReferences":[{"apiVersion":"v1","kind":"ReplicaSet","name":"web","uid":"2","controller":true}]`,
	} {
		if err := cluster.AddJSON(maps, fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,%s}}`, name, metadata)); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	controller := operetta.NewController("maps", operetta.Of[ConfigMap](), func(ctx context.Context, client *operetta.Client) (operetta.Result, error) {
		for _, index := range []string{"app", "owner"} {
			items, err := operetta.List[ConfigMap](ctx, client, operetta.ListOptions{Index: index, IndexValue: "web"})
			if err != nil {
				return operetta.Done(), err
			}
			for _, item := range items {
				found = append(found, index+"="+item.Name)
			}
		}
		return operetta.Done(), nil
	})
	plugin := operetta.NewPlugin(controller).IndexByLabel("app", maps, "app.io/name").IndexByController("owner", maps, owner)
	if _, err := cluster.Reconcile(plugin, "maps", at); err != nil || fmt.Sprint(found) != "[app=a owner=b]" {
		t.Errorf("got %v, %v", found, err)
	}
	text, err := plugin.Describe()
	want := `"indexes":[{"name":"app","apiVersion":"v1","kind":"ConfigMap","label":"app.io/name"},` +
		`{"name":"owner","apiVersion":"v1","kind":"ConfigMap","controller":{"apiVersion":"apps/v1","kind":"ReplicaSet"}}]`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("got %v\n%s\nwant\n%s", err, text, want)
	}
}
