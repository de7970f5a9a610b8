package controllerruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/controllerruntime"
	"operetta.dev/sdk-go/operettatest"
)

var nothing = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, nil
})

func describe(build func(ctrl.Manager) error, options controllerruntime.Options) (string, error) {
	text, err := controllerruntime.NewHandler(build, options).Describe()
	return string(text), err
}

// rehearsed counts how often an object is written and read as JSON.
type rehearsed struct{ corev1.ConfigMap }

var written, read int

func (*rehearsed) MarshalJSON() ([]byte, error)     { written++; return []byte("{}"), nil }
func (*rehearsed) UnmarshalJSON([]byte) error       { read++; return nil }
func (r *rehearsed) DeepCopyObject() runtime.Object { return &rehearsed{*r.ConfigMap.DeepCopy()} }

// A snapshot is taken after Describe, so no reconcile has to examine the type.
func TestDescribeEncodesAndDecodesWatchedKinds(t *testing.T) {
	written, read = 0, 0
	_, err := describe(func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&rehearsed{}).Complete(nothing)
	}, controllerruntime.Options{AddToScheme: []controllerruntime.AddToScheme{func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "e.dev", Version: "v1", Kind: "Rehearsed"}, &rehearsed{})
		return nil
	}}})
	if err != nil || written != 1 || read != 1 {
		t.Fatalf("written %d times, read %d times: %v", written, read, err)
	}
}

// In a snapshot, the seed of each start is the same.
func TestReconcileSeedsGeneratedNames(t *testing.T) {
	var name string
	handler := controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Complete(
			reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				name = utilrand.String(20)
				return reconcile.Result{}, nil
			}))
	}, controllerruntime.Options{})
	utilrand.Seed(1)
	repeated := utilrand.String(20)
	utilrand.Seed(1)
	_, err := handler.Reconcile(operettatest.New(t), operetta.Request{Controller: "deployment"})
	if err != nil || name == "" || name == repeated {
		t.Fatalf("%q after %q: %v", name, repeated, err)
	}
}

func TestManifestHasBuilderSettings(t *testing.T) {
	limiter := workqueue.NewTypedMaxOfRateLimiter[reconcile.Request](
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(7, 8)},
	)
	got, err := describe(func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).Named("my_sets").
			For(&appsv1.Deployment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Owns(&corev1.ConfigMap{}).
			Owns(&corev1.Secret{}, builder.MatchEveryOwner).
			Watches(&corev1.Pod{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &appsv1.Deployment{}, handler.OnlyControllerOwner())).
			Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
			WithEventFilter(predicate.ResourceVersionChangedPredicate{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: 3, RateLimiter: limiter}).
			Complete(nothing)
	}, controllerruntime.Options{
		OwnNamespace: true,
		ByObject:     map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.SelectorFromSet(labels.Set{"a": "b"})}},
		Prune:        map[client.Object][]string{&corev1.Pod{}: {".status", ".spec.volumes"}},
		LabelIndexes: map[client.Object][]string{&corev1.Secret{}: {"b", "a"}, &appsv1.Deployment{}: {"app.io/name"}},
	})
	own := func(apiVersion, kind, more, predicates string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","namespaces":"Own",` + more + `"predicates":["ResourceVersionChanged"` + predicates + `]}`
	}
	want := `{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"my-sets",` +
		`"for":` + own("apps/v1", "Deployment", "", `,"GenerationChanged"`) +
		`,"owns":[` + own("v1", "ConfigMap", "", "") + `,` + strings.TrimSuffix(own("v1", "Pod", `"labelSelector":"a=b",`, ""), "}") + `,"prune":[".status",".spec.volumes"]}]` +
		`,"watches":[{"source":` + own("v1", "Secret", "", "") + `,"map":{"type":"Owner","allOwners":true}}` +
		`,{"source":` + own("v1", "Service", "", "") + `,"map":{"type":"SameName"}}]` +
		`,"workers":3,"rateLimiter":{"baseDelayMs":1000,"maxDelayMs":60000,"qps":7,"burst":8}}]` +
		`,"indexes":[{"name":"app.io/name","apiVersion":"apps/v1","kind":"Deployment","label":"app.io/name"}` +
		`,{"name":"a","apiVersion":"v1","kind":"Secret","label":"a"},{"name":"b","apiVersion":"v1","kind":"Secret","label":"b"}]}`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestFinalizersAreThoseOfTheirKindsControllers(t *testing.T) {
	setup := func(mgr ctrl.Manager) error {
		if err := ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.Secret{}).Complete(nothing); err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(nothing)
	}
	got, err := describe(setup, controllerruntime.Options{
		Finalizers: map[client.Object][]string{&appsv1.Deployment{}: {"e.dev/a", "e.dev/b"}},
	})
	var manifest operetta.Manifest
	if err := errors.Join(err, json.Unmarshal([]byte(got), &manifest)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[e.dev/a e.dev/b]", "[]"} {
		if got := fmt.Sprint(manifest.Controllers[i].Finalizers); got != want {
			t.Errorf("%s: got %s, want %s", manifest.Controllers[i].Name, got, want)
		}
	}

	// A plugin that owns Secrets doesn't reconcile them, so nobody would remove the finalizer.
	_, err = describe(setup, controllerruntime.Options{Finalizers: map[client.Object][]string{&corev1.Secret{}: {"e.dev/a"}}})
	if err == nil || !strings.Contains(err.Error(), "Options.Finalizers: no controller reconciles Secret") {
		t.Errorf("got %v", err)
	}
}

func TestOrOfPredicatesLetsResyncPass(t *testing.T) {
	got, err := describe(func(mgr ctrl.Manager) error {
		either := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}, builder.WithPredicates(either)).Complete(nothing)
	}, controllerruntime.Options{})
	if err != nil || strings.Contains(got, "predicates") {
		t.Errorf("%v\n%s\nwant no predicates: ResourceVersionChanged would drop the resync", err, got)
	}
}

func TestUnsupportedSetupIsAnError(t *testing.T) {
	pods := func(mgr ctrl.Manager) *builder.Builder { return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}) }
	for want, build := range map[string]func(ctrl.Manager) error{
		"the watch of Pod: the predicate predicate.TypedFuncs[": func(mgr ctrl.Manager) error {
			return pods(mgr).WithEventFilter(predicate.NewPredicateFuncs(func(client.Object) bool { return true })).Complete(nothing)
		},
		"the watch of ConfigMap: its owners are not of the kind Pod": func(mgr ctrl.Manager) error {
			return pods(mgr).Watches(&corev1.ConfigMap{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.Node{})).Complete(nothing)
		},
		"a Runnable (manager.RunnableFunc) is not supported": func(mgr ctrl.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error { return nil }))
		},
		"call For()": func(mgr ctrl.Manager) error {
			owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.Node{})
			return ctrl.NewControllerManagedBy(mgr).Named("x").Watches(&corev1.Pod{}, owner).Complete(nothing)
		},
		"registered no controller": func(ctrl.Manager) error { return nil },
		`two controllers have the name "pod"`: func(mgr ctrl.Manager) error {
			if err := pods(mgr).Complete(nothing); err != nil {
				return err
			}
			return pods(mgr).Complete(nothing)
		},
	} {
		if _, err := describe(build, controllerruntime.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
