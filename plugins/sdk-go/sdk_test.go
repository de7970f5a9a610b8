package operetta_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/operettatest"
)

type ConfigMap struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

func (*ConfigMap) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("v1", "ConfigMap")
}

// loose is a custom resource without a schema.
type loose struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

func (*loose) GroupVersionKind() operetta.GroupVersionKind { return operetta.GVK("e.dev/v1", "Loose") }

var at = operetta.Key{Namespace: "ns", Name: "a"}

func configMap(key operetta.Key, word string) *ConfigMap {
	return &ConfigMap{
		ObjectMeta: operetta.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data:       map[string]string{"word": word},
	}
}

// run reconciles one key with a function.
func run(t *testing.T, cluster *operettatest.Cluster, reconcile func(context.Context, *operetta.Client) (operetta.Result, error)) (operetta.Result, error) {
	t.Helper()
	plugin := operetta.NewPlugin(operetta.NewController("maps", operetta.Of[ConfigMap](), reconcile)).
		Index("word", operetta.KindOf[ConfigMap](), ".data.word")
	return cluster.Reconcile(plugin, "maps", at)
}

func TestManifestHasAllDeclarations(t *testing.T) {
	plugin := operetta.NewPlugin(
		operetta.For("maps", func(context.Context, *operetta.Client, *ConfigMap) (operetta.Result, error) {
			return operetta.Done(), nil
		}).
			Owns(operetta.OfKind(operetta.GVK("apps/v1", "Deployment")).WithLabels("a=b").WithFields("metadata.name=x")).
			Watches(operetta.OfKind(operetta.GVK("v1", "Secret")), operetta.ToFieldPaths(".data.name", ".data.namespace")).
			Finalizer("example.com/cleanup").Workers(3).Resync(1500*time.Millisecond).InOwnNamespace().EventFilter(operetta.GenerationChanged).
			RateLimit(operetta.DefaultRateLimiter().Backoff(time.Millisecond, time.Minute).Bucket(5, 6)),
	).Index("word", operetta.KindOf[ConfigMap](), ".data.word")
	got, err := plugin.Describe()
	want := `{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"maps",` +
		`"for":{"apiVersion":"v1","kind":"ConfigMap","namespaces":"Own","predicates":["GenerationChanged"]},` +
		`"owns":[{"apiVersion":"apps/v1","kind":"Deployment","namespaces":"Own","labelSelector":"a=b","fieldSelector":"metadata.name=x","predicates":["GenerationChanged"]}],` +
		`"watches":[{"source":{"apiVersion":"v1","kind":"Secret","namespaces":"Own","predicates":["GenerationChanged"]},"map":{"type":"FieldPath","path":".data.name","namespacePath":".data.namespace"}}],` +
		`"finalizers":["example.com/cleanup"],"workers":3,"resyncSeconds":2,"rateLimiter":{"baseDelayMs":1,"maxDelayMs":60000,"qps":5,"burst":6}}],` +
		`"indexes":[{"name":"word","apiVersion":"v1","kind":"ConfigMap","path":".data.word"}]}`
	if err != nil || string(got) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
}

func TestDuplicateControllerNamesAreAnError(t *testing.T) {
	of := func() *operetta.Controller { return operetta.NewController("maps", operetta.Of[ConfigMap](), nil) }
	if _, err := operetta.NewPlugin(of(), of()).Describe(); err == nil || !strings.Contains(err.Error(), `"maps"`) {
		t.Errorf("got %v", err)
	}
	if _, err := operetta.NewPlugin().Describe(); err == nil {
		t.Error("a plugin without controllers was described")
	}
}

func TestPanicErrorNamesItsLocation(t *testing.T) {
	cluster := operettatest.New(t)
	_, err := run(t, cluster, func(context.Context, *operetta.Client) (operetta.Result, error) { return sing(nil) })
	if err == nil || !strings.HasPrefix(err.Error(), "panic: runtime error: invalid memory address") ||
		!strings.Contains(err.Error(), "sdk-go_test.sing (sdk_test.go:") || operetta.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
	logs := cluster.Logs()
	if len(logs) != 1 || logs[0].Level != operetta.LevelError || !strings.Contains(logs[0].Field("stack"), "sing") {
		t.Errorf("logs: %+v", logs)
	}
}

func sing(nothing *ConfigMap) (operetta.Result, error) {
	return operetta.Done(), errors.New(nothing.Name)
}

func TestSlogWritesToPluginLog(t *testing.T) {
	cluster := operettatest.New(t)
	_, err := run(t, cluster, func(ctx context.Context, client *operetta.Client) (operetta.Result, error) {
		slog.With("a", 1).WithGroup("g").Warn("one", "b", "two", slog.Group("h", "c", true))
		client.Log().Debug("two")
		return operetta.Done(), nil
	})
	logs := cluster.Logs()
	if err != nil || len(logs) != 2 || logs[0].Level != operetta.LevelWarn || logs[0].Field("a") != "1" ||
		logs[0].Field("g.b") != "two" || logs[0].Field("g.h.c") != "true" || logs[1].Level != operetta.LevelDebug {
		t.Errorf("%v %+v", err, logs)
	}
}

func TestResults(t *testing.T) {
	for result, want := range map[operetta.Result]string{
		operetta.Done(): "done", operetta.Requeue(): "requeue",
		operetta.RequeueAfter(time.Second): "requeue after 1s", operetta.RequeueAfter(0): "requeue after 1ms",
	} {
		if result.String() != want {
			t.Errorf("%s, want %s", result, want)
		}
	}
	wrapped := fmt.Errorf("more: %w", operetta.Terminalf("no: %w", operetta.NewAPIError(operetta.NotFound, "gone")))
	if !operetta.IsTerminal(wrapped) || !operetta.IsNotFound(wrapped) || operetta.IsConflict(wrapped) {
		t.Errorf("%v", wrapped)
	}
	if operetta.Terminal(nil) != nil {
		t.Error("Terminal(nil) is an error")
	}
}

func TestCreateOrUpdateWritesChangesOnly(t *testing.T) {
	cluster := operettatest.New(t)
	client := cluster.Client()
	ctx := t.Context()
	for i, want := range []operetta.OperationResult{operetta.Created, operetta.Unchanged, operetta.Updated, operetta.Unchanged} {
		object := configMap(at, "")
		result, err := client.CreateOrUpdate(ctx, object, func() error {
			object.Data = map[string]string{"word": fmt.Sprint(i / 2)}
			object.Finalizers = []string{}
			return nil
		})
		if err != nil || result != want {
			t.Errorf("%d: %s %v, want %s", i, result, err, want)
		}
	}
	if writes := cluster.WritesAsText(); len(writes) != 2 {
		t.Errorf("writes: %v", writes)
	}
}

func TestCreateOrUpdateRejectsChangedKey(t *testing.T) {
	object := configMap(at, "")
	_, err := operettatest.New(t, configMap(at, "")).Client().CreateOrUpdate(t.Context(), object, func() error { object.Name = "b"; return nil })
	if !operetta.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestStaleUpdateConflictsAndDeletedObjectIsNotFound(t *testing.T) {
	client := operettatest.New(t, configMap(at, "1")).Client()
	ctx := t.Context()
	stale, err := operetta.Get[ConfigMap](ctx, client, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Patch(ctx, configMap(at, ""), operetta.MergePatch(map[string]any{"data": map[string]any{"word": nil}})); err != nil {
		t.Fatal(err)
	}
	if err := client.Update(ctx, stale); !operetta.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if err := client.Create(ctx, configMap(at, "")); !operetta.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	if err := client.Delete(ctx, configMap(at, "")); err != nil {
		t.Error(err)
	}
	if err := client.Get(ctx, at, stale); !operetta.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestListFiltersAndPages(t *testing.T) {
	owning := operetta.Key{Namespace: "ns", Name: "owner"}
	cluster := operettatest.New(t, configMap(owning, "x"))
	owner := operettatest.Get[ConfigMap](cluster, owning)
	for i, name := range []string{"a", "b", "c"} {
		object := configMap(operetta.Key{Namespace: "ns", Name: name}, fmt.Sprint(i%2))
		object.Labels = map[string]string{"tier": name}
		if name == "c" {
			if err := operetta.SetControllerReference(owner, object); err != nil {
				t.Fatal(err)
			}
		}
		cluster.Add(object)
	}
	_, err := run(t, cluster, func(ctx context.Context, client *operetta.Client) (operetta.Result, error) {
		for _, test := range []struct {
			options operetta.ListOptions
			want    string
		}{
			{operetta.ListOptions{Labels: "tier in (a, c)"}, "a c"},
			{operetta.ListOptions{Labels: "tier, tier notin (a,b)"}, "c"},
			{operetta.ListOptions{Labels: "tier!=a"}, "b c owner"},
			{operetta.ListOptions{Labels: "!tier"}, "owner"},
			{operetta.ListOptions{Fields: "metadata.name=b"}, "b"},
			{operetta.ListOptions{Index: "word", IndexValue: "0"}, "a c"},
			{operetta.ListOptions{OwnerUID: owner.UID}, "c"},
			{operetta.ListOptions{Limit: 1}, "a b c owner"},
			{operetta.ListOptions{Namespace: "other"}, ""},
		} {
			items, err := operetta.List[ConfigMap](ctx, client, test.options)
			var names []string
			for _, item := range items {
				names = append(names, item.Name)
			}
			if got := strings.Join(names, " "); err != nil || got != test.want {
				t.Errorf("%+v: %q %v, want %q", test.options, got, err, test.want)
			}
		}
		for _, bad := range []operetta.ListOptions{{Index: "no"}, {Labels: "a in ("}, {Fields: "spec.x=1"}} {
			if _, err := operetta.List[ConfigMap](ctx, client, bad); err == nil {
				t.Errorf("%+v was answered", bad)
			}
		}
		items, err := operetta.List[ConfigMap](ctx, client, operetta.ListOptions{Projection: []string{".metadata.labels"}})
		if err != nil || items[0].Data != nil || items[0].Labels["tier"] != "a" || items[0].UID == "" {
			t.Errorf("projected: %+v %v", items, err)
		}
		return operetta.Done(), nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDeletedObjectStaysUntilFinalizersAreRemoved(t *testing.T) {
	object := configMap(at, "")
	operetta.AddFinalizer(object, "e.dev/f")
	client := operettatest.New(t, object).Client()
	ctx := t.Context()
	if err := client.Delete(ctx, configMap(at, "")); err != nil {
		t.Fatal(err)
	}
	deleting, err := operetta.Get[ConfigMap](ctx, client, at)
	if err != nil || deleting.DeletionTimestamp == nil {
		t.Fatalf("%+v %v", deleting, err)
	}
	operetta.AddFinalizer(deleting, "e.dev/g")
	if err := client.Update(ctx, deleting); !operetta.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	deleting.Finalizers = nil
	if err := client.Update(ctx, deleting); err != nil {
		t.Error(err)
	}
	if err := client.Get(ctx, at, deleting); !operetta.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	cluster := operettatest.New(t)
	made := configMap(at, "")
	if err := cluster.Client().Create(t.Context(), made, operetta.WriteOptions{DryRun: true}); err != nil || made.UID == "" {
		t.Errorf("%+v %v", made, err)
	}
	if operettatest.Get[ConfigMap](cluster, at) != nil || len(cluster.Writes()) != 0 {
		t.Error("it was stored")
	}
}

func TestJSONPatchAppliesOperations(t *testing.T) {
	client := operettatest.New(t, configMap(at, "1")).Client()
	ctx := t.Context()
	object := configMap(at, "")
	err := client.Patch(ctx, object, operetta.JSONPatch([]operetta.JSONOperation{
		{Op: "test", Path: "/data/word", Value: "1"},
		{Op: "add", Path: "/metadata/annotations", Value: map[string]string{}},
		{Op: "add", Path: "/metadata/annotations/e.dev~1a", Value: "2"},
		{Op: "move", From: "/data/word", Path: "/data/c"},
		{Op: "add", Path: "/metadata/finalizers", Value: []string{"e.dev/x", "e.dev/y"}},
		{Op: "remove", Path: "/metadata/finalizers/0"},
	}))
	if err != nil || object.Annotations["e.dev/a"] != "2" || object.Data["c"] != "1" || len(object.Data) != 1 || object.Finalizers[0] != "e.dev/y" {
		t.Errorf("%+v %v", object, err)
	}
	err = client.Patch(ctx, object, operetta.JSONPatch([]operetta.JSONOperation{{Op: "test", Path: "/data/c", Value: "x"}}))
	if !operetta.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
}

func TestUnstructuredKeepsIntegersAndUnknownFields(t *testing.T) {
	text := `{"apiVersion":"e.dev/v1","kind":"W","metadata":{"name":"w"},"spec":{"big":9007199254740993,"null":null}}`
	var object operetta.Unstructured
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if big, ok := object.Int64("spec", "big"); !ok || big != 9007199254740993 {
		t.Errorf("big: %d", big)
	}
	if value, found := object.Get("spec", "null"); !found || value != nil {
		t.Error("the null is gone")
	}
	if err := object.Set("x", "spec", "big", "no"); err == nil {
		t.Error("a number took a field")
	}
	if err := object.Set("x", "status", "phase"); err != nil || object.String("status", "phase") != "x" {
		t.Errorf("%v %v", object.Fields, err)
	}
	object.Remove("status")
	back, err := json.Marshal(&object)
	if err != nil || string(back) != text {
		t.Errorf("%s %v", back, err)
	}
}

func TestSetControllerReferenceRejectsInvalidOwners(t *testing.T) {
	owner, child := configMap(at, ""), configMap(operetta.Key{Namespace: "ns", Name: "child"}, "")
	if err := operetta.SetControllerReference(owner, child); err == nil {
		t.Error("an owner without uid was taken")
	}
	owner.UID = "1"
	other := configMap(operetta.Key{Namespace: "ns", Name: "other"}, "")
	other.UID = "2"
	if err := operetta.SetControllerReference(owner, child); err != nil || !operetta.IsControlledBy(child, owner) {
		t.Errorf("%+v %v", child, err)
	}
	var owned *operetta.AlreadyOwnedError
	if err := operetta.SetControllerReference(other, child); !errors.As(err, &owned) {
		t.Errorf("got %v", err)
	}
	far := configMap(operetta.Key{Namespace: "far", Name: "child"}, "")
	if err := operetta.SetControllerReference(owner, far); err == nil {
		t.Error("an owner of another namespace was taken")
	}
}

func TestUndecodableObjectIsATerminalError(t *testing.T) {
	cluster := operettatest.New(t)
	text := `{"metadata":{"name":"a","namespace":"ns"},"data":7}`
	if err := cluster.AddJSON(operetta.KindOf[loose](), []byte(text)); err != nil {
		t.Fatal(err)
	}
	plugin := operetta.NewPlugin(operetta.For("loose", func(context.Context, *operetta.Client, *loose) (operetta.Result, error) {
		t.Error("it was reconciled")
		return operetta.Done(), nil
	}))
	_, err := cluster.Reconcile(plugin, "loose", at)
	if !operetta.IsTerminal(err) || !strings.Contains(err.Error(), "does not fit the type") {
		t.Errorf("got %v", err)
	}
}

func TestListEachReportsAnUndecodableObjectAndHasTheOthers(t *testing.T) {
	cluster := operettatest.New(t)
	for name, data := range map[string]string{"a": `{"x":"1"}`, "b": `7`, "c": `{"x":"3"}`} {
		text := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns"},"data":%s}`, name, data)
		if err := cluster.AddJSON(operetta.KindOf[loose](), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := operetta.List[loose](t.Context(), cluster.Client(), operetta.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "ns/b does not fit the type") || !strings.Contains(err.Error(), "data") {
		t.Errorf("got %v", err)
	}
	all, misfits, err := operetta.ListEach[loose](t.Context(), cluster.Client(), operetta.ListOptions{})
	if err != nil || len(all) != 2 || len(misfits) != 1 || misfits[0].Key.Name != "b" {
		t.Errorf("got %v, %v, %v", all, misfits, err)
	}
}

func TestUndecodableConfigIsATerminalError(t *testing.T) {
	cluster := operettatest.New(t)
	cluster.SetConfig(map[string]any{"word": 7})
	var config struct{ Word string }
	if err := cluster.Client().Config(&config); !operetta.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
	cluster.SetConfig(map[string]any{"word": "yes"})
	if err := cluster.Client().Config(&config); err != nil || config.Word != "yes" {
		t.Errorf("%+v %v", config, err)
	}
}

func TestCallsReturnErrorOfDoneContext(t *testing.T) {
	cluster := operettatest.New(t, configMap(at, "1"))
	client := cluster.Client()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	object := configMap(at, "2")
	_, get := operetta.Get[ConfigMap](ctx, client, at)
	_, list := operetta.List[ConfigMap](ctx, client, operetta.ListOptions{})
	_, unstructured := client.ListUnstructured(ctx, operetta.KindOf[ConfigMap](), operetta.ListOptions{})
	_, createOrUpdate := client.CreateOrUpdate(ctx, object, func() error { return nil })
	_, raw := client.Raw(ctx, operetta.RawRequest{Method: "GET", Path: "/api"})
	for what, err := range map[string]error{
		"get": get, "live": client.GetLive(ctx, at, object), "list": list, "unstructured": unstructured,
		"create": client.Create(ctx, object), "update": client.Update(ctx, object), "status": client.UpdateStatus(ctx, object),
		"patch": client.Patch(ctx, object, operetta.MergePatch(map[string]any{})), "delete": client.Delete(ctx, object),
		"createOrUpdate": createOrUpdate, "raw": raw,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if writes := cluster.WritesAsText(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
}

// foreignUID and the types below are as apimachinery's and k8s.io/api's: other types with the same JSON.
type foreignUID string

type foreignOwner struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Name       string     `json:"name"`
	UID        foreignUID `json:"uid"`
	Controller *bool      `json:"controller,omitempty"`
}

type foreign struct {
	ObjectMeta `json:"metadata"`
	// UID must not be mistaken for the one of the metadata.
	UID int `json:"uid,omitempty"`
}

// unregistered is a type whose kind no test registers.
type unregistered struct {
	ObjectMeta `json:"metadata"`
}

type ObjectMeta struct {
	Name            string         `json:"name,omitempty"`
	Namespace       string         `json:"namespace,omitempty"`
	UID             foreignUID     `json:"uid,omitempty"`
	OwnerReferences []foreignOwner `json:"ownerReferences,omitempty"`
	Finalizers      []string       `json:"finalizers,omitempty"`
}

func (m *ObjectMeta) GetName() string                   { return m.Name }
func (m *ObjectMeta) GetGenerateName() string           { return "" }
func (m *ObjectMeta) GetNamespace() string              { return m.Namespace }
func (m *ObjectMeta) GetFinalizers() []string           { return m.Finalizers }
func (m *ObjectMeta) SetFinalizers(finalizers []string) { m.Finalizers = finalizers }

// bare satisfies Object, but has no metadata of its own.
type bare struct{ operetta.Object }

func TestTypesOfAnotherModuleAreObjectsOnceRegistered(t *testing.T) {
	object := &foreign{ObjectMeta: ObjectMeta{Name: "a", Namespace: "ns"}}
	message := panicOf(func() { operettatest.New(t, &unregistered{}) })
	if want := "operetta.RegisterKind[operetta_test.unregistered](operetta.GVK("; !strings.Contains(message, want) {
		t.Errorf("%q does not contain %q", message, want)
	}
	operetta.RegisterKind[foreign](operetta.GVK("e.dev/v1", "Foreign"))
	cluster := operettatest.New(t, object, configMap(at, ""))
	owner, err := operetta.Get[ConfigMap](t.Context(), cluster.Client(), at)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cluster.Client().CreateOrUpdate(t.Context(), object, func() error {
		operetta.AddFinalizer(object, "e.dev/f")
		return operetta.SetControllerReference(owner, object)
	})
	stored := operettatest.Get[foreign](cluster, at)
	if err != nil || !operetta.IsControlledBy(stored, owner) || stored.OwnerReferences[0].UID != foreignUID(owner.UID) ||
		!operetta.HasFinalizer(stored, "e.dev/f") {
		t.Errorf("%+v %v", stored, err)
	}
	if err := operetta.SetControllerReference(stored, owner); err != nil || owner.OwnerReferences[0].UID != string(stored.ObjectMeta.UID) {
		t.Errorf("%+v %v", owner, err)
	}
}

func TestTypeWithoutObjectMetaIsNotRegistered(t *testing.T) {
	message := panicOf(func() { operetta.RegisterKind[bare](operetta.GVK("e.dev/v1", "Bare")) })
	if !strings.Contains(message, "*operetta_test.bare does not embed operetta.ObjectMeta") {
		t.Errorf("got %q", message)
	}
}

// panicOf returns the text of a function's panic.
func panicOf(call func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	call()
	return ""
}
