package operettatest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/operettatest"
)

// widget is a custom resource without a schema.
type widget struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                widgetSpec    `json:"spec"`
	Status              *widgetStatus `json:"status,omitempty"`
}

type widgetSpec struct {
	Size int `json:"size"`
}

type widgetStatus struct {
	Ready bool `json:"ready"`
}

func (*widget) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("e.dev/v1", "Widget")
}

var (
	widgets     = operetta.KindOf[widget]()
	configMaps  = operetta.GVK("v1", "ConfigMap")
	deployments = operetta.GVK("apps/v1", "Deployment")
	key         = operetta.Key{Namespace: "ns", Name: "a"}
)

func newWidget(name string) *widget {
	return &widget{ObjectMeta: operetta.ObjectMeta{Namespace: "ns", Name: name}, Spec: widgetSpec{Size: 1}}
}

func newConfigMap(name string, data map[string]any) *operetta.Unstructured {
	object := operetta.NewUnstructured(configMaps, operetta.Key{Namespace: "ns", Name: name})
	object.Fields = map[string]any{"data": data}
	return object
}

func wantKind(t *testing.T, what string, err error, want operetta.ErrorKind) {
	t.Helper()
	if kind, ok := operetta.ErrorKindOf(err); !ok || kind != want {
		t.Errorf("%s: got %v, want %s", what, err, want)
	}
}

func wantWrites(t *testing.T, cluster *operettatest.Cluster, want ...string) {
	t.Helper()
	if got := cluster.WritesAsText(); !slices.Equal(got, want) {
		t.Errorf("writes: got %q, want %q", got, want)
	}
}

func TestAddedObjectHasStatusAndSystemFields(t *testing.T) {
	object := newWidget("a")
	object.Status = &widgetStatus{Ready: true}
	cluster := operettatest.New(t, object)
	stored := operettatest.Get[widget](cluster, key)
	if stored == nil || stored.UID == "" || stored.ResourceVersion == "" || stored.CreationTimestamp == nil ||
		stored.Generation != 1 || stored.Status == nil || !stored.Status.Ready {
		t.Errorf("got %+v", stored)
	}
	wantWrites(t, cluster)
	for text, want := range map[string]string{
		`{"metadata":{"namespace":"ns","name":"a"}}`: `widgets.e.dev "a" already exists`,
		`{"metadata":{"namespace":"ns","name":"A"}}`: "a lowercase RFC 1123 subdomain",
		`{`:    "not a JSON object",
		`null`: "not a JSON object",
		`{"kind":"Gadget","metadata":{"namespace":"ns","name":"b"}}`: `the object's kind is "Gadget", not "Widget"`,
	} {
		if err := cluster.AddJSON(widgets, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestAddedDeletedObjectStaysForItsFinalizer(t *testing.T) {
	cluster := operettatest.New(t)
	text := `{"metadata":{"namespace":"ns","name":"a","finalizers":["e.dev/f"],"deletionTimestamp":"2030-01-01T00:00:00Z"}}`
	if err := cluster.AddJSON(widgets, []byte(text)); err != nil {
		t.Fatal(err)
	}
	deleting := operettatest.Get[widget](cluster, key)
	if deleting == nil || deleting.DeletionTimestamp == nil {
		t.Fatalf("got %+v", deleting)
	}
	deleting.Finalizers = nil
	if err := cluster.Client().Update(t.Context(), deleting); err != nil {
		t.Fatal(err)
	}
	if gone := operettatest.Get[widget](cluster, key); gone != nil {
		t.Errorf("still there: %+v", gone)
	}
}

func TestWritesReachTheAPIServerAndAreRecorded(t *testing.T) {
	cluster := operettatest.New(t)
	client, ctx := cluster.Client(), t.Context()
	object := newWidget("a")
	if err := client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	object.Spec.Size = 2
	if err := client.Update(ctx, object); err != nil || object.Generation != 2 {
		t.Errorf("update: %+v %v", object, err)
	}
	object.Status = &widgetStatus{Ready: true}
	if err := client.UpdateStatus(ctx, object); err != nil || object.Generation != 2 || object.Status == nil {
		t.Errorf("update of the status: %+v %v", object, err)
	}
	if err := client.Patch(ctx, object, operetta.MergePatch(map[string]any{"spec": map[string]any{"size": 3}})); err != nil || object.Spec.Size != 3 {
		t.Errorf("merge patch: %+v %v", object, err)
	}
	replace := []operetta.JSONOperation{{Op: "replace", Path: "/spec/size", Value: 4}}
	if err := client.Patch(ctx, object, operetta.JSONPatch(replace)); err != nil || object.Spec.Size != 4 {
		t.Errorf("JSON patch: %+v %v", object, err)
	}
	apply := operetta.ApplyPatch(map[string]any{"spec": map[string]any{"size": 5}})
	wantKind(t, "apply of a field of another manager", client.Patch(ctx, newWidget("a"), apply), operetta.Conflict)
	apply.Force = true
	if err := client.Patch(ctx, object, apply); err != nil || object.Spec.Size != 5 {
		t.Errorf("apply: %+v %v", object, err)
	}
	if err := client.Delete(ctx, object, operetta.DeleteOptions{Propagation: operetta.Background}); err != nil {
		t.Error(err)
	}
	generated := &widget{ObjectMeta: operetta.ObjectMeta{Namespace: "ns", GenerateName: "w-"}}
	if err := client.Create(ctx, generated); err != nil || !strings.HasPrefix(generated.Name, "w-") {
		t.Errorf("generated name: %+v %v", generated, err)
	}
	wantWrites(t, cluster, "Create Widget ns/a", "Update Widget ns/a", "UpdateStatus Widget ns/a", "Patch Widget ns/a",
		"Patch Widget ns/a", "Patch Widget ns/a", "Delete Widget ns/a", "Create Widget ns/"+generated.Name)
}

func TestDryRunsAreNotRecorded(t *testing.T) {
	cluster := operettatest.New(t, newWidget("a"))
	client, ctx := cluster.Client(), t.Context()
	if err := client.Create(ctx, newWidget("b"), operetta.WriteOptions{DryRun: true}); err != nil {
		t.Error(err)
	}
	if err := client.Delete(ctx, newWidget("a"), operetta.DeleteOptions{DryRun: true}); err != nil {
		t.Error(err)
	}
	if operettatest.Get[widget](cluster, key) == nil || operettatest.Get[widget](cluster, operetta.Key{Namespace: "ns", Name: "b"}) != nil {
		t.Error("a dry run changed the cluster")
	}
	wantWrites(t, cluster)
}

func TestRejectedWritesHaveTheErrorOfTheAPIServer(t *testing.T) {
	cluster := operettatest.New(t, newConfigMap("a", map[string]any{"k": "v"}))
	client, ctx := cluster.Client(), t.Context()
	stale := newConfigMap("a", nil)
	stale.ResourceVersion = "1"
	wantKind(t, "stale", client.Update(ctx, stale), operetta.Conflict)
	wantKind(t, "exists", client.Create(ctx, newConfigMap("a", nil)), operetta.AlreadyExists)
	wantKind(t, "missing", client.Update(ctx, newConfigMap("none", nil)), operetta.NotFound)
	wantKind(t, "precondition", client.Delete(ctx, newConfigMap("a", nil), operetta.DeleteOptions{UID: "other"}), operetta.Conflict)
	wantKind(t, "unserved kind", client.Get(ctx, key, newWidget("a")), operetta.NotFound)
	unknown := newConfigMap("b", nil)
	unknown.Fields["spec"] = map[string]any{}
	wantKind(t, "unknown field", client.Create(ctx, unknown, operetta.WriteOptions{Strict: true}), operetta.BadRequest)
	_, err := cluster.Create(configMaps, "ns", []byte("{"), operetta.WriteOptions{})
	wantKind(t, "text that is not JSON", err, operetta.BadRequest)

	empty := operetta.NewUnstructured(deployments, key)
	empty.Fields = map[string]any{"spec": map[string]any{}}
	err = client.Create(ctx, empty)
	wantKind(t, "invalid", err, operetta.Invalid)
	var api *operetta.APIError
	if errors.As(err, &api) && !slices.ContainsFunc(api.Status.Causes, func(c operetta.Cause) bool { return c.Field == "spec.selector" }) {
		t.Errorf("causes: %+v", api.Status.Causes)
	}
	wantWrites(t, cluster)
}

func TestListsSelectPageAndProject(t *testing.T) {
	cluster := operettatest.New(t)
	for i := range 5 {
		object := newWidget(fmt.Sprintf("w%d", i))
		object.Labels = map[string]string{"half": fmt.Sprint(i / 3)}
		cluster.Add(object)
	}
	client, ctx := cluster.Client(), t.Context()
	for _, live := range []bool{false, true} {
		options := operetta.ListOptions{Namespace: "ns", Labels: "half in (0)", Limit: 2, Live: live, Projection: []string{".metadata.labels"}}
		page, next, err := operetta.ListPage[widget](ctx, client, options)
		if err != nil || len(page) != 2 || next == "" || page[0].Name != "w0" || page[0].Labels["half"] != "0" || page[0].Spec.Size != 0 {
			t.Fatalf("live %t: %+v %q %v", live, page, next, err)
		}
		options.Continue = next
		page, next, err = operetta.ListPage[widget](ctx, client, options)
		if err != nil || len(page) != 1 || next != "" {
			t.Errorf("live %t: %+v %q %v", live, page, next, err)
		}
	}
	_, err := operetta.List[widget](ctx, client, operetta.ListOptions{Labels: "a in ("})
	wantKind(t, "malformed selector", err, operetta.BadRequest)
	_, err = operetta.List[widget](ctx, client, operetta.ListOptions{Index: "none", IndexValue: "x"})
	wantKind(t, "undeclared index", err, operetta.BadRequest)
}

func TestReconcileDeclaresTheIndexesOfThePlugin(t *testing.T) {
	cluster := operettatest.New(t, newWidget("a"), newWidget("b"))
	sizes := func(size string) int {
		items, err := operetta.List[widget](t.Context(), cluster.Client(), operetta.ListOptions{Index: "size", IndexValue: size})
		if err != nil {
			t.Fatal(err)
		}
		return len(items)
	}
	reconcile := func(context.Context, *operetta.Client) (operetta.Result, error) {
		if got := sizes("1"); got != 2 {
			t.Errorf("got %d objects of size 1", got)
		}
		return operetta.Done(), nil
	}
	plugin := operetta.NewPlugin(operetta.NewController("widget", operetta.Of[widget](), reconcile)).Index("size", widgets, ".spec.size")
	for range 2 {
		if _, err := cluster.Reconcile(plugin, "widget", key); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRawRequestsReachTheAPIServer(t *testing.T) {
	cluster := operettatest.New(t, newConfigMap("a", map[string]any{"k": "v"}))
	get := func(request operetta.RawRequest) operetta.RawResponse {
		response, err := cluster.Client().Raw(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	path := "/api/v1/namespaces/ns/configmaps"
	found := get(operetta.RawRequest{Method: "GET", Path: path + "/a", Cached: true})
	if found.Status != 200 || found.ContentType != "application/json" || !strings.Contains(string(found.Body), `"k":"v"`) {
		t.Errorf("got %+v %s", found, found.Body)
	}
	body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`)
	if made := get(operetta.RawRequest{Method: "POST", Path: path, Query: "fieldManager=x", Body: body}); made.Status != 201 {
		t.Errorf("got %+v %s", made, made.Body)
	}
	if missing := get(operetta.RawRequest{Method: "GET", Path: path + "/none"}); missing.Status != 404 {
		t.Errorf("got %+v %s", missing, missing.Body)
	}
	cluster.OnRaw(func(request operetta.RawRequest) operetta.RawResponse {
		return operetta.RawResponse{Status: 418, Body: []byte(request.Path)}
	})
	if teapot := get(operetta.RawRequest{Method: "GET", Path: "/tea"}); teapot.Status != 418 || string(teapot.Body) != "/tea" {
		t.Errorf("got %+v", teapot)
	}
}

func TestScaleSubresourceIsPatched(t *testing.T) {
	cluster := operettatest.New(t)
	text := `{"metadata":{"namespace":"ns","name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if err := cluster.AddJSON(deployments, []byte(text)); err != nil {
		t.Fatal(err)
	}
	scale := operetta.MergePatch(map[string]any{"spec": map[string]any{"replicas": 3}})
	scale.Subresource = "scale"
	if err := cluster.Client().Patch(t.Context(), operetta.NewUnstructured(deployments, key), scale); err != nil {
		t.Fatal(err)
	}
	scaled := operetta.NewUnstructured(deployments, key)
	if err := cluster.Client().GetLive(t.Context(), key, scaled); err != nil || scaled.String("spec", "replicas") != "3" {
		t.Errorf("got %v %v", scaled.Fields, err)
	}
}

func TestDefinedKindsHaveTheirScopeAndStatus(t *testing.T) {
	cluster := operettatest.New(t)
	cluster.Define(operettatest.Definition{Kind: operetta.GVK("e.dev/v1", "Mouse"), Plural: "mice", ClusterScoped: true})
	cluster.WithoutStatusSubresource(widgets)
	mouse := operetta.NewUnstructured(operetta.GVK("e.dev/v1", "Mouse"), operetta.Key{Name: "m"})
	if err := cluster.Client().Create(t.Context(), mouse); err != nil {
		t.Error(err)
	}
	if got := cluster.Raw(operetta.RawRequest{Method: "GET", Path: "/apis/e.dev/v1/mice/m"}); got.Status != 200 {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	object := newWidget("a")
	object.Status = &widgetStatus{Ready: true}
	if err := cluster.Client().Create(t.Context(), object); err != nil || object.Status == nil {
		t.Errorf("got %+v %v", object, err)
	}
	wantKind(t, "status subresource", cluster.Client().UpdateStatus(t.Context(), object), operetta.BadRequest)
}

func TestPlannedFaultsFailTheNextCallsOfTheirVerb(t *testing.T) {
	cluster := operettatest.New(t, newWidget("a"))
	client, ctx := cluster.Client(), t.Context()
	call := map[operettatest.Verb]func() error{
		operettatest.VerbGet:          func() error { return client.Get(ctx, key, newWidget("a")) },
		operettatest.VerbList:         func() error { _, err := operetta.List[widget](ctx, client, operetta.ListOptions{}); return err },
		operettatest.VerbCreate:       func() error { return client.Create(ctx, newWidget("b")) },
		operettatest.VerbUpdate:       func() error { return client.Update(ctx, operettatest.Get[widget](cluster, key)) },
		operettatest.VerbUpdateStatus: func() error { return client.UpdateStatus(ctx, operettatest.Get[widget](cluster, key)) },
		operettatest.VerbPatch:        func() error { return client.Patch(ctx, newWidget("a"), operetta.MergePatch(map[string]any{})) },
		operettatest.VerbDelete:       func() error { return client.Delete(ctx, newWidget("b")) },
	}
	for _, verb := range []operettatest.Verb{
		operettatest.VerbGet, operettatest.VerbList, operettatest.VerbCreate, operettatest.VerbUpdate,
		operettatest.VerbUpdateStatus, operettatest.VerbPatch, operettatest.VerbDelete,
	} {
		cluster.FailNext(verb, operetta.NewAPIError(operetta.TooManyRequests, "slow"))
		wantKind(t, string(verb), call[verb](), operetta.TooManyRequests)
		if err := call[verb](); err != nil {
			t.Errorf("the second %s: %v", verb, err)
		}
	}
}

func TestClustersAreIsolated(t *testing.T) {
	first, second := operettatest.New(t, newWidget("a")), operettatest.New(t)
	if operettatest.Get[widget](first, key) == nil || operettatest.Get[widget](second, key) != nil {
		t.Error("the second cluster has the object of the first one")
	}
	second.Add(newWidget("a"))
	if err := second.Client().Delete(t.Context(), newWidget("a")); err != nil {
		t.Fatal(err)
	}
	if operettatest.Get[widget](first, key) == nil {
		t.Error("a deletion in the second cluster deleted the object of the first one")
	}
}

// TestInSubprocess fails on purpose. [failing] runs it in another process.
func TestInSubprocess(t *testing.T) {
	if os.Getenv("OPERETTATEST_FAIL") == "" {
		t.Skip("another test runs it")
	}
	cluster := operettatest.New(t, newWidget("visible"))
	secret := operetta.NewUnstructured(operetta.GVK("v1", "Secret"), key)
	secret.Fields = map[string]any{"stringData": map[string]any{"password": "hunter2"}}
	cluster.Add(secret)
	t.Error("on purpose")
}

// failing returns the output of a test that fails in another process, with more variables in its environment.
func failing(t *testing.T, variables ...string) string {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestInSubprocess$")
	command.Env = append(os.Environ(), append(variables, "OPERETTATEST_FAIL=1")...)
	output, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("the test did not fail: %v\n%s", err, output)
	}
	return string(output)
}

func TestFailedTestShowsItsCluster(t *testing.T) {
	output := failing(t)
	for _, want := range []string{"on purpose", "the cluster at the end of the test:", "Widget", "visible"} {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
	if encoded, _ := json.Marshal([]byte("hunter2")); strings.Contains(output, "hunter2") || strings.Contains(output, strings.Trim(string(encoded), `"`)) {
		t.Errorf("the output has the value of a Secret:\n%s", output)
	}
}

func TestMissingProgramIsNamedWithItsCure(t *testing.T) {
	output := failing(t, "OPERETTA_TEST_ADDRESS=", "OPERETTA=/none/operetta")
	for _, want := range []string{"cluster_test.go:", "/none/operetta", "run the tests with `operetta test`, or put `operetta` on PATH (or set OPERETTA"} {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
}

func TestWrongTokenIsRejected(t *testing.T) {
	_, host, _ := strings.Cut(operettatest.ServerAddress(t), "@")
	output := failing(t, "OPERETTA_TEST_ADDRESS=wrong@"+host)
	if !strings.Contains(output, "the call open of the test server failed") {
		t.Errorf("got\n%s", output)
	}
}

func TestWarningsAreTakenOnceAndBelongToAReconcile(t *testing.T) {
	cluster := operettatest.New(t)
	misspelt := func(name string) *operetta.Unstructured {
		object := operetta.NewUnstructured(operetta.GVK("v1", "ConfigMap"), operetta.Key{Namespace: "ns", Name: name})
		if err := object.Set("x", "wrong"); err != nil {
			t.Fatal(err)
		}
		return object
	}
	create := func(client *operetta.Client, name string) {
		if err := client.Create(t.Context(), misspelt(name)); err != nil {
			t.Fatal(err)
		}
	}
	want := `unknown field "wrong"`
	client := cluster.Client()
	if got := client.TakeWarnings(); got != nil {
		t.Errorf("got %q before any call", got)
	}
	create(client, "a")
	create(client, "b")
	if got := client.TakeWarnings(); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("got %q", got)
	}
	if got := client.TakeWarnings(); got != nil {
		t.Errorf("got %q again", got)
	}

	create(client, "c")
	reconcile := func(_ context.Context, client *operetta.Client) (operetta.Result, error) {
		if got := client.TakeWarnings(); got != nil {
			t.Errorf("got %q of a call before the reconcile", got)
		}
		create(client, "d")
		if got := client.TakeWarnings(); len(got) != 1 || got[0] != want {
			t.Errorf("got %q", got)
		}
		return operetta.Done(), nil
	}
	plugin := operetta.NewPlugin(operetta.NewController("widget", operetta.Of[widget](), reconcile))
	if _, err := cluster.Reconcile(plugin, "widget", key); err != nil {
		t.Fatal(err)
	}
}
