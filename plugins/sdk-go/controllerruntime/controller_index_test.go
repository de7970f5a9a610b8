package controllerruntime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/controllerruntime"
	"operetta.dev/sdk-go/operettatest"
)

// controllerOf is the function of kubebuilder's tutorial.
func controllerOf(kind string) client.IndexerFunc {
	return func(object client.Object) []string {
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.APIVersion != "apps/v1" || owner.Kind != kind {
			return nil
		}
		return []string{owner.Name}
	}
}

// indexed registers an index of ConfigMaps, and controllers for these kinds.
func indexed(index client.IndexerFunc, reconciler reconcile.Reconciler, kinds ...client.Object) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, ".metadata.controller", index); err != nil {
			return err
		}
		for _, kind := range kinds {
			if err := ctrl.NewControllerManagedBy(mgr).For(kind).Owns(&corev1.ConfigMap{}).Complete(reconciler); err != nil {
				return err
			}
		}
		return nil
	}
}

var byController = controllerruntime.Options{ControllerIndexes: []string{".metadata.controller"}}

func TestControllerIndexIsTheHosts(t *testing.T) {
	setup := indexed(controllerOf("StatefulSet"), nothing, &appsv1.Deployment{}, &appsv1.StatefulSet{})
	text, err := describe(setup, byController)
	want := `"indexes":[{"name":".metadata.controller","apiVersion":"v1","kind":"ConfigMap","controller":{"apiVersion":"apps/v1","kind":"StatefulSet"}}]`
	if err != nil || !strings.Contains(text, want) {
		t.Errorf("got %v\n%s\nwant\n%s", err, text, want)
	}
}

func TestListByControllerIndexReadsOnlyItsObjects(t *testing.T) {
	cluster := operettatest.New(t)
	for i, owner := range []string{"web", "web", "other"} {
		text := fmt.Sprintf(`{"metadata":{"namespace":"ns","name":"%c","ownerReferences":[
			{"apiVersion":"apps/v1","kind":"Deployment","name":%q,"uid":"u","controller":true}]}}`, 'a'+i, owner)
		if err := cluster.AddJSON(configMaps, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	calls, inner := 0, controllerOf("Deployment")
	counted := func(object client.Object) []string { calls++; return inner(object) }
	var found []string
	var reader client.Client
	list := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		calls = 0
		var maps corev1.ConfigMapList
		err := reader.List(ctx, &maps, client.InNamespace("ns"), client.MatchingFields{".metadata.controller": "web"})
		for _, item := range maps.Items {
			found = append(found, item.Name)
		}
		return reconcile.Result{}, err
	})
	handler := controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
		reader = mgr.GetClient()
		return indexed(counted, list, &appsv1.Deployment{})(mgr)
	}, byController)
	if _, err := cluster.Reconcile(handler, "deployment", operetta.Key{Namespace: "ns", Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(found); got != "[a b]" || calls != 2 {
		t.Errorf("found %s by %d calls of the index function", got, calls)
	}
}

func TestControllerIndexOfOtherValuesIsAnError(t *testing.T) {
	ofDeployments := controllerOf("Deployment")
	for name, index := range map[string]client.IndexerFunc{
		"nothing": func(client.Object) []string { return nil },
		"uid":     func(object client.Object) []string { return []string{string(metav1.GetControllerOf(object).UID)} },
		"any kind": func(object client.Object) []string {
			if owner := metav1.GetControllerOf(object); owner != nil {
				return []string{owner.Name}
			}
			return nil
		},
		"any owner": func(object client.Object) []string {
			for _, owner := range object.GetOwnerReferences() {
				if owner.Kind == "Deployment" {
					return []string{owner.Name}
				}
			}
			return nil
		},
		"also others": func(object client.Object) []string {
			if metav1.GetControllerOf(object) == nil {
				return []string{"none"}
			}
			return ofDeployments(object)
		},
		"a kind without a controller": controllerOf("DaemonSet"),
	} {
		_, err := describe(indexed(index, nothing, &appsv1.Deployment{}), byController)
		want := `the index ".metadata.controller" on ConfigMap: the function must return the name of metav1.GetControllerOf(object)`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	_, err := describe(indexed(ofDeployments, nothing, &appsv1.Deployment{}), controllerruntime.Options{ControllerIndexes: []string{"owner"}})
	if err == nil || !strings.Contains(err.Error(), `there is no index "owner"`) {
		t.Errorf("got %v", err)
	}
}
