package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/operettatest"
)

var key = operetta.Key{Namespace: "default", Name: "example-foo"}

func foo() *Foo {
	replicas := int32(2)
	return &Foo{
		ObjectMeta: operetta.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       FooSpec{DeploymentName: key.Name, Replicas: &replicas},
	}
}

func sync(t *testing.T, cluster *operettatest.Cluster) {
	t.Helper()
	result, err := cluster.Reconcile(plugin(), "foo", key)
	if err != nil || result != operetta.Done() {
		t.Fatalf("sync: %v %v", result, err)
	}
}

func deployment(t *testing.T, cluster *operettatest.Cluster) *Deployment {
	t.Helper()
	found := operettatest.Get[Deployment](cluster, key)
	if found == nil {
		t.Fatal("there is no Deployment")
	}
	return found
}

func wantWrites(t *testing.T, cluster *operettatest.Cluster, want ...string) {
	t.Helper()
	if got := cluster.WritesAsText(); !slices.Equal(got, want) {
		t.Fatalf("writes: %q, want %q", got, want)
	}
}

func wantEvent(t *testing.T, cluster *operettatest.Cluster, of operetta.EventType, reason, note string) {
	t.Helper()
	events := cluster.Events()
	if len(events) != 1 || events[0].Type != of || events[0].Reason != reason || events[0].Note != note || events[0].UID == "" {
		t.Fatalf("events: %+v", events)
	}
}

func TestNewFooGetsDeployment(t *testing.T) {
	cluster := operettatest.New(t, foo())
	sync(t, cluster)
	made := deployment(t, cluster)
	if !operetta.IsControlledBy(made, operettatest.Get[Foo](cluster, key)) {
		t.Errorf("owners: %+v", made.OwnerReferences)
	}
	container := made.Spec.Template.Spec.Containers[0]
	if *made.Spec.Replicas != 2 || container.Image != "nginx:latest" || made.Spec.Selector.MatchLabels["controller"] != "example-foo" {
		t.Errorf("spec: %+v", made.Spec)
	}
	wantWrites(t, cluster, "Create Deployment default/example-foo", "UpdateStatus Foo default/example-foo")
	wantEvent(t, cluster, operetta.Normal, "Synced", "Foo synced successfully")
}

func TestSecondSyncWritesNothingAndRecordsSynced(t *testing.T) {
	cluster := operettatest.New(t, foo())
	sync(t, cluster)
	cluster.Writes()
	cluster.Events()
	sync(t, cluster)
	wantWrites(t, cluster)
	wantEvent(t, cluster, operetta.Normal, "Synced", "Foo synced successfully")
}

func TestDeletedFooNeedsNothing(t *testing.T) {
	cluster := operettatest.New(t)
	sync(t, cluster)
	wantWrites(t, cluster)
	if logs := cluster.Logs(); len(logs) != 1 || logs[0].Field("key") != "default/example-foo" {
		t.Errorf("logs: %+v", logs)
	}
}

func TestEmptyDeploymentNameIsATerminalError(t *testing.T) {
	nameless := foo()
	nameless.Spec.DeploymentName = ""
	// The schema of crd.yaml rejects this Foo, but an older one may have let it in.
	_, err := reconcile(t.Context(), operettatest.New(t).Client(), nameless)
	if !operetta.IsTerminal(err) || err.Error() != "default/example-foo: deployment name must be specified" {
		t.Errorf("got %v", err)
	}
}

func TestDeploymentOfAnotherOwnerIsKeptWithWarning(t *testing.T) {
	theirs := &Deployment{ObjectMeta: operetta.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	labels := map[string]string{"app": "theirs"}
	theirs.Spec.Selector.MatchLabels, theirs.Spec.Template.Metadata.Labels = labels, labels
	theirs.Spec.Template.Spec.Containers = []Container{{Name: "theirs", Image: "nginx"}}
	cluster := operettatest.New(t, foo(), theirs)
	_, err := cluster.Reconcile(plugin(), "foo", key)
	message := `Resource "example-foo" already exists and is not managed by Foo`
	if err == nil || err.Error() != message || operetta.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
	wantEvent(t, cluster, operetta.Warning, "ErrResourceExists", message)
	wantWrites(t, cluster)
}

func TestChangedReplicasAreRestoredAndOtherFieldsKept(t *testing.T) {
	cluster := operettatest.New(t, foo())
	sync(t, cluster)
	patch := operetta.MergePatch(map[string]any{"spec": map[string]any{"replicas": 5, "paused": true}})
	if err := cluster.Client().Patch(t.Context(), deployment(t, cluster), patch); err != nil {
		t.Fatal(err)
	}
	sync(t, cluster)
	if now := deployment(t, cluster); *now.Spec.Replicas != 2 {
		t.Errorf("replicas: %d", *now.Spec.Replicas)
	}
	whole := operetta.NewUnstructured(operetta.KindOf[Deployment](), key)
	if err := cluster.Client().Get(t.Context(), key, whole); err != nil || whole.String("spec", "paused") != "true" {
		t.Errorf("a field that the type does not know: %v %v", whole.Fields, err)
	}
}

func TestFooWithoutReplicasKeepsDeploymentReplicas(t *testing.T) {
	unsized := foo()
	unsized.Spec.Replicas = nil
	cluster := operettatest.New(t, unsized)
	sync(t, cluster)
	patch := operetta.MergePatch(map[string]any{"spec": map[string]any{"replicas": 7}})
	if err := cluster.Client().Patch(t.Context(), deployment(t, cluster), patch); err != nil {
		t.Fatal(err)
	}
	sync(t, cluster)
	if now := deployment(t, cluster); *now.Spec.Replicas != 7 {
		t.Errorf("replicas: %d", *now.Spec.Replicas)
	}
}

func TestStatusFollowsDeployment(t *testing.T) {
	cluster := operettatest.New(t, foo())
	sync(t, cluster)
	patch := operetta.MergePatch(map[string]any{"status": map[string]any{"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}})
	patch.Subresource = "status"
	if err := cluster.Client().Patch(t.Context(), deployment(t, cluster), patch); err != nil {
		t.Fatal(err)
	}
	sync(t, cluster)
	now := operettatest.Get[Foo](cluster, key)
	if now.Status.AvailableReplicas != 2 || now.Generation != 1 {
		t.Errorf("status %+v, generation %d", now.Status, now.Generation)
	}
}

func TestDeletedDeploymentIsCreatedAgain(t *testing.T) {
	cluster := operettatest.New(t, foo())
	sync(t, cluster)
	if err := cluster.Client().Delete(t.Context(), deployment(t, cluster)); err != nil {
		t.Fatal(err)
	}
	sync(t, cluster)
	deployment(t, cluster)
}

func TestFailedAPICallIsRetried(t *testing.T) {
	cluster := operettatest.New(t, foo())
	cluster.FailNext(operettatest.VerbCreate, operetta.NewAPIError(operetta.Unavailable, "etcd is down"))
	_, err := cluster.Reconcile(plugin(), "foo", key)
	var api *operetta.APIError
	if !errors.As(err, &api) || api.Kind != operetta.Unavailable || operetta.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
	if events := cluster.Events(); len(events) != 0 {
		t.Errorf("events: %+v", events)
	}
}

func TestChangedDeploymentsEnqueueTheirFoo(t *testing.T) {
	manifest, err := plugin().Describe()
	owns := `"owns":[{"apiVersion":"apps/v1","kind":"Deployment","namespaces":"Own","predicates":["ResourceVersionChanged"]}]`
	if err != nil || !strings.Contains(string(manifest), owns) {
		t.Errorf("%s %v", manifest, err)
	}
}
