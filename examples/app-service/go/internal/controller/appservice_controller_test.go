package controller_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	batchv1alpha1 "app-service/api/v1alpha1"
	"app-service/internal/controller"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/controllerruntime"
	"operetta.dev/sdk-go/operettatest"
)

var (
	appServices = operetta.GVK("batch.example.com/v1alpha1", "AppService")
	deployments = operetta.GVK("apps/v1", "Deployment")
	services    = operetta.GVK("v1", "Service")
	key         = operetta.Key{Namespace: "ns", Name: "app"}
)

func newHandler() operetta.Handler {
	setup := func(mgr ctrl.Manager) error {
		return (&controller.AppServiceReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr)
	}
	return controllerruntime.NewHandler(setup, controllerruntime.Options{
		AddToScheme: []controllerruntime.AddToScheme{batchv1alpha1.AddToScheme}, OwnNamespace: true,
	})
}

func newCluster(t *testing.T) *operettatest.Cluster {
	t.Helper()
	cluster := operettatest.New(t)
	text := `{"apiVersion":"batch.example.com/v1alpha1","kind":"AppService","metadata":{"namespace":"ns","name":"app"},"spec":{"replicas":2}}`
	if err := cluster.AddJSON(appServices, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func reconcile(t *testing.T, cluster *operettatest.Cluster) {
	t.Helper()
	if result, err := cluster.Reconcile(newHandler(), "appservice", key); err != nil || result != operetta.Done() {
		t.Fatalf("%v %v", result, err)
	}
}

func get(t *testing.T, cluster *operettatest.Cluster, kind operetta.GroupVersionKind) *operetta.Unstructured {
	t.Helper()
	found := operetta.NewUnstructured(kind, key)
	if err := cluster.Client().Get(t.Context(), key, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func patch(t *testing.T, cluster *operettatest.Cluster, kind operetta.GroupVersionKind, body map[string]any, subresource string) {
	t.Helper()
	change := operetta.MergePatch(body)
	change.Subresource = subresource
	if err := cluster.Client().Patch(t.Context(), operetta.NewUnstructured(kind, key), change); err != nil {
		t.Fatal(err)
	}
}

func TestNewAppServiceGetsItsChildren(t *testing.T) {
	cluster := newCluster(t)
	reconcile(t, cluster)
	app := get(t, cluster, appServices)
	for _, kind := range []operetta.GroupVersionKind{deployments, services} {
		if !operetta.IsControlledBy(get(t, cluster, kind), app) {
			t.Errorf("%s is not owned", kind)
		}
	}
	if app.Annotations["spec"] != `{"replicas":2}` {
		t.Errorf("annotations: %v", app.Annotations)
	}
	cluster.Writes()
	reconcile(t, cluster)
	if writes := cluster.WritesAsText(); len(writes) != 0 {
		t.Errorf("a reconcile that finds nothing to change wrote %q", writes)
	}
}

func TestChangedSpecUpdatesChildrenAndKeepsServiceAddress(t *testing.T) {
	cluster := newCluster(t)
	reconcile(t, cluster)
	address := get(t, cluster, services).String("spec", "clusterIP")
	patch(t, cluster, appServices, map[string]any{"spec": map[string]any{"replicas": 3}}, "")
	reconcile(t, cluster)
	if replicas := get(t, cluster, deployments).String("spec", "replicas"); replicas != "3" {
		t.Errorf("replicas: %s", replicas)
	}
	if kept := get(t, cluster, services).String("spec", "clusterIP"); address == "" || kept != address {
		t.Errorf("clusterIP: %q, before %q", kept, address)
	}
	if kept := get(t, cluster, appServices).Annotations["spec"]; kept != `{"replicas":3}` {
		t.Errorf("annotation: %s", kept)
	}
}

func TestStatusFollowsDeployment(t *testing.T) {
	cluster := newCluster(t)
	reconcile(t, cluster)
	patch(t, cluster, deployments, map[string]any{"status": map[string]any{"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}}, "status")
	reconcile(t, cluster)
	if available, _ := get(t, cluster, appServices).Int64("status", "availableReplicas"); available != 2 {
		t.Errorf("availableReplicas: %d", available)
	}
}

func TestMalformedAnnotationIsReportedByName(t *testing.T) {
	cluster := newCluster(t)
	patch(t, cluster, appServices, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"spec": "{replicas"}}}, "")
	_, err := cluster.Reconcile(newHandler(), "appservice", key)
	if err == nil || !strings.Contains(err.Error(), `AppService ns/app: the annotation "spec"`) {
		t.Errorf("got %v", err)
	}
}

func TestChildrenOfAnotherOwnerAreNotChanged(t *testing.T) {
	cluster := newCluster(t)
	theirs := `{"metadata":{"namespace":"ns","name":"app"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if err := cluster.AddJSON(deployments, []byte(theirs)); err != nil {
		t.Fatal(err)
	}
	_, err := cluster.Reconcile(newHandler(), "appservice", key)
	if err == nil || !strings.Contains(err.Error(), "does not control") {
		t.Errorf("got %v", err)
	}
}

func TestDeletedAppServiceNeedsNothing(t *testing.T) {
	reconcile(t, operettatest.New(t))
}

func TestManifestWatchesChildren(t *testing.T) {
	text, err := newHandler().Describe()
	if err != nil {
		t.Fatal(err)
	}
	var manifest operetta.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	of := manifest.Controllers[0]
	owned := []operetta.Source{operetta.OfKind(deployments).InOwnNamespace(), operetta.OfKind(services).InOwnNamespace()}
	same := func(a, b operetta.Source) bool {
		return a.Kind == b.Kind && a.APIVersion == b.APIVersion && a.Namespaces == b.Namespaces
	}
	if of.Name != "appservice" || of.For.Kind != "AppService" || of.Workers != 2 || !slices.EqualFunc(of.Owns, owned, same) {
		t.Errorf("%s", text)
	}
}
