package main

import (
	"testing"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/operettatest"
)

var key = operetta.Key{Namespace: "default", Name: "example"}

// cluster returns a test cluster with one {{kind}}, reconciled once.
func cluster(t *testing.T) *operettatest.Cluster {
	t.Helper()
	cluster := operettatest.New(t, &{{kind}}{
		ObjectMeta: operetta.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       {{kind}}Spec{Message: "Hello"},
	})
	reconcileOnce(t, cluster)
	return cluster
}

func reconcileOnce(t *testing.T, cluster *operettatest.Cluster) {
	t.Helper()
	if result, err := cluster.Reconcile(plugin(), "{{singular}}", key); err != nil || result != operetta.Done() {
		t.Fatal(result, err)
	}
}

func TestTheMessageGetsIntoAConfigMapAndIsPutBack(t *testing.T) {
	cluster := cluster(t)
	object := operettatest.Get[{{kind}}](cluster, key)
	written := operettatest.Get[configMap](cluster, key)
	if written == nil || written.Data["message"] != "Hello" || !operetta.IsControlledBy(written, object) {
		t.Fatal("not as wanted:", written)
	}
	if object.Status.ConfigMap != "example" {
		t.Fatal("the status does not name it:", object.Status)
	}

	written.Data = nil
	if err := cluster.Client().Update(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	reconcileOnce(t, cluster)
	if written = operettatest.Get[configMap](cluster, key); written.Data["message"] != "Hello" {
		t.Fatal("not put back:", written)
	}
}

func TestASecondReconcileWritesNothing(t *testing.T) {
	cluster := cluster(t)
	cluster.Writes()
	reconcileOnce(t, cluster)
	if writes := cluster.WritesAsText(); len(writes) > 0 {
		t.Fatal(writes)
	}
}
