package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	goruntime "runtime"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"operetta.dev/sdk-go"
)

// dnsLabel converts a controller's name to the DNS label that the host requires.
func dnsLabel(name string) (string, error) {
	label := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if problems := validation.IsDNS1123Label(label); len(problems) > 0 {
		return "", fmt.Errorf("the controller's name %q is not a DNS label: %s", name, strings.Join(problems, "; "))
	}
	return label, nil
}

// manifest returns the manifest of the recorded controllers.
func (m *manager) manifest() (operetta.Manifest, error) {
	manifest := operetta.NewManifest()
	if len(m.controllers) == 0 {
		return manifest, errors.New("the setup registered no controller: call SetupWithManager in it")
	}
	for _, of := range m.controllers {
		described, err := m.describe(of)
		if err != nil {
			return manifest, fmt.Errorf("controller %q: %w", of.name, err)
		}
		manifest.Controllers = append(manifest.Controllers, described)
	}
	return manifest, nil
}

// watched is a recorded source.Kind.
type watched struct {
	object  client.Object
	kind    schema.GroupVersionKind
	source  operetta.Source
	handler handler.EventHandler
}

func (m *manager) describe(of *controller) (operetta.ControllerManifest, error) {
	manifest := operetta.ControllerManifest{Name: of.label}
	sources := field(of.recorded, "startWatches")
	var all []watched
	for i := range sources.Len() {
		watch, err := m.watched(sources.Index(i))
		if err != nil {
			return manifest, err
		}
		all = append(all, watch)
	}
	first := -1
	for i, watch := range all {
		if handlerOf(watch.handler) == "EnqueueRequestForObject" {
			first = i
			break
		}
	}
	if first < 0 {
		return manifest, errors.New("it has no kind to reconcile: call For()")
	}
	manifest.For = all[first].source
	for i, watch := range all {
		if i == first {
			continue
		}
		mapping, err := m.mapping(watch, all[first].kind)
		if err != nil {
			return manifest, fmt.Errorf("the watch of %s: %w", watch.kind.Kind, err)
		}
		if mapping == operetta.ToOwner() {
			manifest.Owns = append(manifest.Owns, watch.source)
		} else {
			manifest.Watches = append(manifest.Watches, operetta.Watch{Source: watch.source, Map: mapping})
		}
	}
	manifest.Workers = uint32(min(max(field(of.recorded, "MaxConcurrentReconciles").Int(), 1), 64))
	limiter, err := rateLimiter(field(of.recorded, "RateLimiter").Interface())
	manifest.RateLimiter = limiter
	return manifest, err
}

func (m *manager) watched(source reflect.Value) (watched, error) {
	for source.Kind() == reflect.Interface || source.Kind() == reflect.Pointer {
		source = source.Elem()
	}
	if source.Kind() != reflect.Struct || !strings.HasPrefix(source.Type().Name(), "Kind[") {
		return watched{}, fmt.Errorf("sources of the type %s are not supported: the host watches the kinds of For, Owns and Watches", source.Type())
	}
	object, ok := source.FieldByName("Type").Interface().(client.Object)
	if !ok || reflect.ValueOf(object).IsNil() {
		return watched{}, errors.New("a watch has no type")
	}
	kind, err := apiutil.GVKForObject(object, m.scheme)
	if err != nil {
		return watched{}, fmt.Errorf("the kind of %T: %w; is its AddToScheme among the Options'?", object, err)
	}
	handled, ok := source.FieldByName("Handler").Interface().(handler.EventHandler)
	if !ok {
		return watched{}, fmt.Errorf("the watch of %s has a typed handler: use handler.EventHandler's", kind.Kind)
	}
	watch := watched{object: object, kind: kind, handler: handled, source: operetta.OfKind(operetta.GVK(kind.GroupVersion().String(), kind.Kind))}
	if m.options.OwnNamespace {
		watch.source = watch.source.InOwnNamespace()
	}
	if err := m.narrow(&watch); err != nil {
		return watched{}, err
	}
	predicates := source.FieldByName("Predicates")
	for i := range predicates.Len() {
		known, err := predicatesOf(predicates.Index(i))
		if err != nil {
			return watched{}, fmt.Errorf("the watch of %s: %w", kind.Kind, err)
		}
		watch.source = watch.source.WithPredicates(known...)
	}
	return watch, nil
}

// narrow applies Options.ByObject to a watch.
func (m *manager) narrow(watch *watched) error {
	for object, by := range m.options.ByObject {
		kind, err := apiutil.GVKForObject(object, m.scheme)
		if err != nil {
			return fmt.Errorf("Options.ByObject: %w", err)
		}
		if kind != watch.kind {
			continue
		}
		if by.Label != nil {
			watch.source.LabelSelector = by.Label.String()
		}
		if by.Field != nil {
			watch.source.FieldSelector = by.Field.String()
		}
		by.Label, by.Field = nil, nil
		if !reflect.DeepEqual(by, cache.ByObject{}) {
			return fmt.Errorf("Options.ByObject of %s: a plugin can narrow a kind by Label and Field only", kind.Kind)
		}
	}
	return nil
}

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

// mapping returns the mapping of a watch. The fields of an owner handler are private, so it runs the handler on an
// object with owners to learn their kind, and whether it enqueues all owners.
func (m *manager) mapping(watch watched, of schema.GroupVersionKind) (operetta.Mapping, error) {
	switch handlerOf(watch.handler) {
	case "EnqueueRequestForObject":
		return operetta.ToSameName(), nil
	case "enqueueRequestForOwner":
	case "enqueueRequestsFromMapFunc":
		return operetta.Mapping{}, errors.New("it maps events with a Go function, which the host cannot run; use owner references or the same name")
	default:
		return operetta.Mapping{}, fmt.Errorf("its handler %T is Go code, which the host cannot run; use EnqueueRequestForOwner or EnqueueRequestForObject", watch.handler)
	}
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

// recordingQueue records the requests that a handler adds.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []reconcile.Request
}

func (q *recordingQueue) Add(request reconcile.Request) { q.added = append(q.added, request) }

// knownPredicates maps the types of controller-runtime's predicates to those of the host.
var knownPredicates = map[string]operetta.Predicate{
	"TypedGenerationChangedPredicate":      operetta.GenerationChanged,
	"TypedLabelChangedPredicate":           operetta.LabelsChanged,
	"TypedAnnotationChangedPredicate":      operetta.AnnotationsChanged,
	"TypedResourceVersionChangedPredicate": operetta.ResourceVersionChanged,
}

// predicatesOf converts a predicate to those of the host. It returns an error for a predicate that the host lacks.
func predicatesOf(of reflect.Value) ([]operetta.Predicate, error) {
	for of.Kind() == reflect.Interface || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	name, _, _ := strings.Cut(of.Type().Name(), "[")
	if strings.HasSuffix(of.Type().PkgPath(), "controller-runtime/pkg/predicate") {
		if known, found := knownPredicates[name]; found {
			return []operetta.Predicate{known}, nil
		}
		if name == "and" || name == "or" {
			var all []operetta.Predicate
			inner := field(of, "predicates")
			for i := range inner.Len() {
				known, err := predicatesOf(inner.Index(i))
				if err != nil {
					return nil, err
				}
				all = append(all, known...)
			}
			if name == "or" && len(all) > 1 {
				// An event that passes any of them changes the resourceVersion, so no event is lost, but more may pass.
				return []operetta.Predicate{operetta.ResourceVersionChanged}, nil
			}
			return all, nil
		}
	}
	return nil, fmt.Errorf("the predicate %s is Go code, which the host cannot run; use GenerationChangedPredicate and its siblings, And and Or of them, or Options.ByObject for a selector", of.Type())
}

// rateLimiter converts client-go's rate limiters to the host's. It returns nil for controller-runtime's default.
func rateLimiter(of any) (*operetta.RateLimiter, error) {
	limiter := operetta.DefaultRateLimiter()
	if err := addLimiter(&limiter, of); err != nil {
		return nil, err
	}
	if limiter == operetta.DefaultRateLimiter() {
		return nil, nil
	}
	return &limiter, nil
}

func addLimiter(limiter *operetta.RateLimiter, of any) error {
	switch of := of.(type) {
	case *workqueue.TypedItemExponentialFailureRateLimiter[reconcile.Request]:
		value := reflect.ValueOf(of).Elem()
		duration := func(name string) time.Duration { return time.Duration(field(value, name).Int()) }
		*limiter = limiter.Backoff(duration("baseDelay"), duration("maxDelay"))
	case *workqueue.TypedBucketRateLimiter[reconcile.Request]:
		qps := uint32(min(max(math.Ceil(float64(of.Limit())), 1), math.MaxUint32))
		*limiter = limiter.Bucket(qps, uint32(max(of.Burst(), 1)))
	case *workqueue.TypedMaxOfRateLimiter[reconcile.Request]:
		inner := field(reflect.ValueOf(of).Elem(), "limiters")
		for i := range inner.Len() {
			if err := addLimiter(limiter, inner.Index(i).Interface()); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("its rate limiter %T is Go code, which the host cannot run; use client-go's exponential and bucket rate limiters", of)
	}
	return nil
}
