package controllerruntime

import (
	"context"
	"fmt"
	"reflect"
	goruntime "runtime"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	kjson "sigs.k8s.io/json"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/internal/codec"
)

// handlerOf returns the name of a handler's type, also of a handler that controller-runtime has wrapped.
func handlerOf(of handler.EventHandler) string {
	if funcs, ok := of.(handler.Funcs); ok {
		if of = wrapped(funcs); of == nil {
			return "Funcs"
		}
	}
	name, _, _ := strings.Cut(reflect.Indirect(reflect.ValueOf(of)).Type().Name(), "[")
	return strings.TrimPrefix(name, "Typed")
}

// wrapped returns the handler that handler.WithLowPriorityWhenUnchanged has wrapped; nil for other Funcs. The functions
// of the wrapper are method values of an interface: closures that hold the interface's two words.
func wrapped(funcs handler.Funcs) handler.EventHandler {
	if funcs.CreateFunc == nil {
		return nil
	}
	function := goruntime.FuncForPC(reflect.ValueOf(funcs.CreateFunc).Pointer())
	if function == nil || !strings.HasSuffix(function.Name(), "controller-runtime/pkg/handler.TypedEventHandler[...].Create-fm") {
		return nil
	}
	closure := *(**struct {
		code     uintptr
		receiver handler.EventHandler
	})(unsafe.Pointer(&funcs.CreateFunc))
	return closure.receiver
}

// isCustom reports whether a handler is Go code, other than those that have a mapping of the host.
func isCustom(of handler.EventHandler) bool {
	name := handlerOf(of)
	return name != "EnqueueRequestForObject" && name != "enqueueRequestForOwner"
}

// mapping returns the mapping of a watch. For a handler that is Go code the host calls MapEvent, which runs it.
func (m *manager) mapping(watch watched, of schema.GroupVersionKind) (operetta.Mapping, error) {
	switch {
	case isCustom(watch.handler):
		return operetta.Mapping{Type: "Custom"}, nil
	case handlerOf(watch.handler) == "enqueueRequestForOwner":
		return m.ownerMapping(watch, of)
	}
	return operetta.ToSameName(), nil
}

// ownerMapping returns the mapping of an owner handler. Its fields are private, so it runs the handler on an object with
// owners to learn their kind, and whether it enqueues all owners.
func (m *manager) ownerMapping(watch watched, of schema.GroupVersionKind) (operetta.Mapping, error) {
	probe, ok := watch.object.DeepCopyObject().(client.Object)
	if !ok {
		return operetta.Mapping{}, fmt.Errorf("%T is not a client.Object", watch.object)
	}
	yes, version := true, of.GroupVersion().String()
	probe.SetName("probe")
	probe.SetNamespace("probe")
	probe.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: version, Kind: of.Kind, Name: "controlling", UID: "1", Controller: &yes},
		{APIVersion: version, Kind: of.Kind, Name: "other", UID: "2"},
	})
	queue := &recordingQueue{}
	m.mapper.probing.Store(true)
	watch.handler.Create(context.Background(), event.CreateEvent{Object: probe}, queue)
	m.mapper.probing.Store(false)
	switch len(queue.added) {
	case 0:
		return operetta.Mapping{}, fmt.Errorf("its owners are not of the kind %s that the controller is for", of.Kind)
	case 1:
		return operetta.ToOwner(), nil
	}
	return operetta.ToAllOwners(), nil
}

// MapEvent runs the handlers of the watches of the event's kind.
func (h *served) MapEvent(api operetta.API, event operetta.MapEvent) (keys []operetta.Key, err error) {
	defer operetta.RecoverPanic(api, &err)
	if h.err != nil {
		return nil, h.err
	}
	of, err := h.manager.controller(event.Controller)
	if err != nil {
		return nil, err
	}
	watches, err := h.manager.watches(of)
	if err != nil {
		return nil, err
	}
	mapping := &mappingAPI{noAPI: noAPI{reason: "a mapping has only the object of the event, and no API"}, host: api}
	h.manager.api.use(mapping)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx = ctrl.LoggerInto(ctx, newLogger(api))
	queue := &recordingQueue{}
	for _, watch := range watches {
		kind := operetta.GVK(watch.kind.GroupVersion().String(), watch.kind.Kind)
		if kind != event.Kind || !isCustom(watch.handler) {
			continue
		}
		if err := watch.handle(ctx, event, queue); err != nil {
			return nil, err
		}
	}
	switch {
	case queue.err != nil:
		return nil, queue.err
	case mapping.refused != "":
		return nil, fmt.Errorf("the handler of %s calls the API (%s), but a mapping has only the object of the event: "+
			"name the keys in that object, or use owner references", event.Kind.Kind, mapping.refused)
	}
	return queue.keys(), nil
}

// handle runs the watch's handler on an event. An update that the host has merged with a deletion is handled as both.
func (w watched) handle(ctx context.Context, change operetta.MapEvent, queue *recordingQueue) error {
	object, err := w.decode(change.Object)
	if err != nil {
		return err
	}
	old := object
	if change.Old != nil {
		if old, err = w.decode(change.Old); err != nil {
			return err
		}
	}
	switch {
	case change.Old != nil || change.Change == operetta.Modified:
		w.handler.Update(ctx, event.UpdateEvent{ObjectOld: old, ObjectNew: object}, queue)
	case change.Change == operetta.Added:
		w.handler.Create(ctx, event.CreateEvent{Object: object}, queue)
	}
	if change.Change == operetta.Deleted {
		w.handler.Delete(ctx, event.DeleteEvent{Object: object}, queue)
	}
	return nil
}

// decode reads an object of the watch's type.
func (w watched) decode(text []byte) (client.Object, error) {
	object, ok := w.object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not a client.Object", w.object)
	}
	if codec.ReadExact(text, object, kjson.UnmarshalCaseSensitivePreserveInts) {
		return object, nil
	}
	object, _ = w.object.DeepCopyObject().(client.Object)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, object); err != nil {
		return nil, fmt.Errorf("failed to decode the %s to map into %T: %w", w.kind.Kind, object, err)
	}
	return object, nil
}

// recordingQueue records the requests that a handler adds.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []reconcile.Request
	// err is the error of a call that the host has no counterpart of.
	err error
}

func (q *recordingQueue) Add(request reconcile.Request) { q.added = append(q.added, request) }

// AddRateLimited adds the request without a delay: the host's rate limiter delays failed keys only.
func (q *recordingQueue) AddRateLimited(request reconcile.Request) { q.Add(request) }

// AddAfter adds no request: the host enqueues mapped keys at once.
func (q *recordingQueue) AddAfter(request reconcile.Request, delay time.Duration) {
	q.err = fmt.Errorf("the handler adds %s after %s, but mapped keys are enqueued at once: return RequeueAfter from Reconcile", request, delay)
}

// keys returns the keys of the requests, without repeats.
func (q *recordingQueue) keys() []operetta.Key {
	var keys []operetta.Key
	seen := map[reconcile.Request]bool{}
	for _, request := range q.added {
		if !seen[request] {
			seen[request] = true
			keys = append(keys, operetta.Key{Namespace: request.Namespace, Name: request.Name})
		}
	}
	return keys
}
