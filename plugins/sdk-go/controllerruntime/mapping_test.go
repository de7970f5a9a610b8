package controllerruntime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/controllerruntime"
	"operetta.dev/sdk-go/operettatest"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// mapped returns the handler of a controller of Pods that watches ConfigMaps with this handler.
func mapped(of func(ctrl.Manager) handler.EventHandler, options ...builder.WatchesOption) operetta.Handler {
	return controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Watches(&corev1.ConfigMap{}, of(mgr), options...).Complete(nothing)
	}, controllerruntime.Options{})
}

// byFunction returns a handler that maps by a function.
func byFunction(function handler.MapFunc) func(ctrl.Manager) handler.EventHandler {
	return func(ctrl.Manager) handler.EventHandler { return handler.EnqueueRequestsFromMapFunc(function) }
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
}

// byWord returns a request for each word of the ConfigMap's data.word.
func byWord(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range strings.Fields(object.(*corev1.ConfigMap).Data["word"]) {
		requests = append(requests, request(name))
	}
	return requests
}

// change returns the change of a ConfigMap from the word `old`, if it is not empty, to `now`.
func change(of operetta.Change, now, old string) operetta.MapEvent {
	text := func(word string) []byte {
		if word == "" {
			return nil
		}
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":"a","labels":{"l":%[1]q}},"data":{"word":%[1]q}}`, word)
	}
	return operetta.MapEvent{Controller: "pod", Kind: configMaps, Key: at, Change: of, Object: text(now), Old: text(old)}
}

func TestMapFuncGetsBothStates(t *testing.T) {
	for name, one := range map[string]struct {
		event operetta.MapEvent
		want  []string
	}{
		"added":                {change(operetta.Added, "a b", ""), []string{"ns/a", "ns/b"}},
		"modified":             {change(operetta.Modified, "b c", "a b"), []string{"ns/a", "ns/b", "ns/c"}},
		"resynced":             {change(operetta.Modified, "a", ""), []string{"ns/a"}},
		"deleted":              {change(operetta.Deleted, "a", ""), []string{"ns/a"}},
		"modified and deleted": {change(operetta.Deleted, "b", "a"), []string{"ns/a", "ns/b"}},
	} {
		keys, err := mapped(byFunction(byWord)).MapEvent(operettatest.New(t), one.event)
		var got []string
		for _, key := range keys {
			got = append(got, key.String())
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, one.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, one.want)
		}
	}
}

func TestHandlerOfGoCodeIsACustomMapping(t *testing.T) {
	of := func(ctrl.Manager) handler.EventHandler { return handler.Funcs{} }
	for _, handler := range []operetta.Handler{mapped(byFunction(byWord)), mapped(of)} {
		text, err := handler.Describe()
		want := `"watches":[{"source":{"apiVersion":"v1","kind":"ConfigMap"},"map":{"type":"Custom"}}]`
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("got %v\n%s\nwant\n%s", err, text, want)
		}
	}
}

func TestMapFuncOfMetadataGetsOnlyMetadata(t *testing.T) {
	function := func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{request(object.GetLabels()["l"])}
	}
	keys, err := mapped(byFunction(function), builder.OnlyMetadata).MapEvent(operettatest.New(t), change(operetta.Added, "x", ""))
	if err != nil || fmt.Sprint(keys) != "[ns/x]" {
		t.Errorf("got %v, %v", keys, err)
	}
}

func TestHandlerFuncsGetTheKindOfChange(t *testing.T) {
	of := func(ctrl.Manager) handler.EventHandler {
		return handler.Funcs{
			CreateFunc: func(_ context.Context, _ event.CreateEvent, queue requestQueue) { queue.Add(request("created")) },
			UpdateFunc: func(_ context.Context, event event.UpdateEvent, queue requestQueue) {
				queue.AddRateLimited(request(event.ObjectOld.GetLabels()["l"] + "-" + event.ObjectNew.GetLabels()["l"]))
			},
			DeleteFunc: func(_ context.Context, _ event.DeleteEvent, queue requestQueue) { queue.Add(request("deleted")) },
		}
	}
	for want, event := range map[string]operetta.MapEvent{
		"[ns/created]":        change(operetta.Added, "a", ""),
		"[ns/a-b]":            change(operetta.Modified, "b", "a"),
		"[ns/a-a]":            change(operetta.Modified, "a", ""),
		"[ns/deleted]":        change(operetta.Deleted, "a", ""),
		"[ns/a-b ns/deleted]": change(operetta.Deleted, "b", "a"),
	} {
		if keys, err := mapped(of).MapEvent(operettatest.New(t), event); err != nil || fmt.Sprint(keys) != want {
			t.Errorf("got %v, %v, want %s", keys, err, want)
		}
	}
}

func TestMappingThatNeedsMoreThanTheObjectIsAnError(t *testing.T) {
	for want, of := range map[string]func(ctrl.Manager) handler.EventHandler{
		"the handler of ConfigMap calls the API (list Pod), but a mapping has only the object": func(mgr ctrl.Manager) handler.EventHandler {
			return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
				var pods corev1.PodList
				if err := mgr.GetClient().List(ctx, &pods, client.InNamespace(object.GetNamespace())); err != nil {
					log.FromContext(ctx).Error(err, "no Pods")
					return nil
				}
				return []reconcile.Request{request("a")}
			})
		},
		"calls the API (get Secret ns/a)": func(mgr ctrl.Manager) handler.EventHandler {
			return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
				_ = mgr.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(object), &corev1.Secret{})
				return nil
			})
		},
		"the handler adds ns/later after 1s, but": func(ctrl.Manager) handler.EventHandler {
			return handler.Funcs{CreateFunc: func(_ context.Context, _ event.CreateEvent, queue requestQueue) {
				queue.AddAfter(request("later"), time.Second)
			}}
		},
		"panic: no keys today at ": byFunction(func(context.Context, client.Object) []reconcile.Request { panic("no keys today") }),
	} {
		_, err := mapped(of).MapEvent(operettatest.New(t), change(operetta.Added, "a", ""))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestMapFuncLogs(t *testing.T) {
	cluster := operettatest.New(t)
	function := func(ctx context.Context, object client.Object) []reconcile.Request {
		log.FromContext(ctx).Info("mapped", "name", object.GetName())
		return nil
	}
	keys, err := mapped(byFunction(function)).MapEvent(cluster, change(operetta.Added, "a", ""))
	logs := cluster.Logs()
	if err != nil || len(keys) != 0 || len(logs) != 1 || logs[0].Message != "mapped" || logs[0].Field("name") != "a" {
		t.Errorf("got %v, %v, %v", keys, err, logs)
	}
}
