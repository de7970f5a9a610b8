package controller_test

import (
	"strings"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	cloudv1 "cloud-manager/api/v1"
	"cloud-manager/internal/controller"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/controllerruntime"
	"operetta.dev/sdk-go/operettatest"
)

var (
	clouds       = operetta.GVK("cloudmanagercontroller.huayun.com/v1", "CloudManager")
	deployments  = operetta.GVK("apps/v1", "Deployment")
	statefulSets = operetta.GVK("apps/v1", "StatefulSet")
	secrets      = operetta.GVK("v1", "Secret")
)

const cloud = `{"apiVersion":"cloudmanagercontroller.huayun.com/v1","kind":"CloudManager",
	"metadata":{"namespace":"ns","name":"one"},"spec":{
		"front":{"deployment":{"name":"front","image":"nginx"}},
		"identity":{"deployment":{"name":"identity","image":"busybox"}},
		"db":{"rootPass":"s3cret","statefulSet":{"name":"db","image":"mariadb",
			"storage":{"class":"fast","accessModes":["ReadWriteOnce"],"size":"1Gi"}}}}}`

func key(name string) operetta.Key { return operetta.Key{Namespace: "ns", Name: name} }

func newCluster(t *testing.T) *operettatest.Cluster {
	t.Helper()
	cluster := operettatest.New(t)
	if err := cluster.AddJSON(clouds, []byte(cloud)); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func reconcile(t *testing.T, cluster *operettatest.Cluster) operetta.Result {
	t.Helper()
	setup := func(mgr ctrl.Manager) error {
		return (&controller.CloudManagerReconciler{
			Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Recorder: mgr.GetEventRecorderFor("test"),
		}).SetupWithManager(mgr)
	}
	handler := controllerruntime.NewHandler(setup, controllerruntime.Options{AddToScheme: []controllerruntime.AddToScheme{cloudv1.AddToScheme}})
	result, err := cluster.Reconcile(handler, "cloudmanager", key("one"))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func get(t *testing.T, cluster *operettatest.Cluster, kind operetta.GroupVersionKind, name string) *operetta.Unstructured {
	t.Helper()
	found := operetta.NewUnstructured(kind, operetta.Key{})
	if err := cluster.Client().Get(t.Context(), key(name), found); err != nil {
		t.Fatal(err)
	}
	return found
}

func patch(t *testing.T, cluster *operettatest.Cluster, kind operetta.GroupVersionKind, name, subresource string, body any) {
	t.Helper()
	change := operetta.MergePatch(body)
	change.Subresource = subresource
	if err := cluster.Client().Patch(t.Context(), operetta.NewUnstructured(kind, key(name)), change); err != nil {
		t.Fatal(err)
	}
}

func becomesReady(t *testing.T, cluster *operettatest.Cluster, kind operetta.GroupVersionKind, name string) {
	t.Helper()
	patch(t, cluster, kind, name, "status", map[string]any{"status": map[string]any{"replicas": 1, "readyReplicas": 1}})
}

// bringUp starts all parts, and checks that each part waits for the previous one.
func bringUp(t *testing.T, cluster *operettatest.Cluster) {
	t.Helper()
	for _, part := range []struct {
		kind operetta.GroupVersionKind
		name string
	}{{deployments, "front"}, {deployments, "identity"}, {statefulSets, "db"}} {
		if result := reconcile(t, cluster); result != operetta.Requeue() {
			t.Fatalf("before %s is ready: %v", part.name, result)
		}
		becomesReady(t, cluster, part.kind, part.name)
	}
	if result := reconcile(t, cluster); result != operetta.Done() {
		t.Fatalf("with everything ready: %v", result)
	}
}

func TestEachPartWaitsForPreviousOne(t *testing.T) {
	cluster := newCluster(t)
	bringUp(t, cluster)
	want := "Create Deployment ns/front, Create Deployment ns/identity, Create Secret ns/dbauth, Create StatefulSet ns/db, UpdateStatus CloudManager ns/one"
	var writes []string
	for _, write := range cluster.WritesAsText() {
		if !strings.HasPrefix(write, "Patch ") {
			writes = append(writes, write)
		}
	}
	if got := strings.Join(writes, ", "); got != want {
		t.Errorf("writes: %s", got)
	}
	if phase := get(t, cluster, clouds, "one").String("status", "phase"); phase != "ready" {
		t.Errorf("phase: %q", phase)
	}
	events := cluster.Events()
	if len(events) != 1 || events[0].Reason != "Updated" || events[0].Note != "Update cm.status.phase: ready" {
		t.Errorf("events: %+v", events)
	}
	if password := get(t, cluster, secrets, "dbauth").String("data", "password"); password != "czNjcmV0" {
		t.Errorf("password: %q", password)
	}
	if operetta.ControllerOf(get(t, cluster, statefulSets, "db")) == nil {
		t.Error("the StatefulSet is not owned")
	}
	if reconcile(t, cluster); len(cluster.WritesAsText()) != 0 {
		t.Error("a reconcile that finds nothing to change wrote something")
	}
}

func TestRenamedDeploymentIsReplaced(t *testing.T) {
	cluster := newCluster(t)
	bringUp(t, cluster)
	cluster.Events()
	rename := map[string]any{"spec": map[string]any{"front": map[string]any{"deployment": map[string]any{"name": "renamed"}}}}
	patch(t, cluster, clouds, "one", "", rename)
	if result := reconcile(t, cluster); result != operetta.Requeue() {
		t.Errorf("%v", result)
	}
	if err := cluster.Client().Get(t.Context(), key("front"), operetta.NewUnstructured(deployments, operetta.Key{})); !operetta.IsNotFound(err) {
		t.Errorf("the old one: %v", err)
	}
	get(t, cluster, deployments, "renamed")
	events := cluster.Events()
	if len(events) != 1 || events[0].Reason != "Deleted" || events[0].Note != `Deleted deployment "front"` {
		t.Errorf("events: %+v", events)
	}
}

func TestDeploymentsOfOtherOwnersAreNotDeleted(t *testing.T) {
	cluster := newCluster(t)
	theirs := `{"metadata":{"namespace":"ns","name":"theirs"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if err := cluster.AddJSON(deployments, []byte(theirs)); err != nil {
		t.Fatal(err)
	}
	bringUp(t, cluster)
	get(t, cluster, deployments, "theirs")
}

func TestDeletedCloudNeedsNothing(t *testing.T) {
	if result := reconcile(t, operettatest.New(t)); result != operetta.Done() {
		t.Errorf("%v", result)
	}
}
