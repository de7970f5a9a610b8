package controllerruntime

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
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
	if err := m.addFinalizers(manifest.Controllers); err != nil {
		return manifest, err
	}
	byLabel, err := m.labelIndexes()
	if err != nil {
		return manifest, err
	}
	byController, err := m.indexes.controllerIndexes(manifest.Controllers)
	manifest.Indexes = append(byLabel, byController...)
	return manifest, err
}

// addFinalizers adds those of Options.Finalizers to the controllers of their kinds.
func (m *manager) addFinalizers(controllers []operetta.ControllerManifest) error {
	for object, finalizers := range m.options.Finalizers {
		kind, err := apiutil.GVKForObject(object, m.scheme)
		if err != nil {
			return fmt.Errorf("Options.Finalizers: %w", err)
		}

		found := false
		for i := range controllers {
			if of := controllers[i].For; of.APIVersion == kind.GroupVersion().String() && of.Kind == kind.Kind {
				controllers[i].Finalizers = append(controllers[i].Finalizers, finalizers...)
				found = true
			}
		}
		if !found {
			return fmt.Errorf("Options.Finalizers: no controller reconciles %s: name a kind of For()", kind.Kind)
		}
	}
	return nil
}

// labelIndexes returns the indexes of Options.LabelIndexes, in the order of kind and label. An index has the name of its
// label: lists by MatchingLabels use it.
func (m *manager) labelIndexes() ([]operetta.IndexManifest, error) {
	var indexes []operetta.IndexManifest
	for object, labels := range m.options.LabelIndexes {
		kind, err := apiutil.GVKForObject(object, m.scheme)
		if err != nil {
			return nil, fmt.Errorf("Options.LabelIndexes: %w", err)
		}
		for _, label := range labels {
			indexes = append(indexes, operetta.IndexManifest{
				Name: label, APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Label: label,
			})
		}
	}
	slices.SortFunc(indexes, func(a, b operetta.IndexManifest) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return indexes, nil
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
	all, err := m.watches(of)
	if err != nil {
		return manifest, err
	}
	first := slices.IndexFunc(all, func(watch watched) bool { return handlerOf(watch.handler) == "EnqueueRequestForObject" })
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
	manifest.RateLimiter, err = rateLimiter(field(of.recorded, "RateLimiter").Interface())
	return manifest, err
}

// watches returns the watches of a controller.
func (m *manager) watches(of *controller) ([]watched, error) {
	sources := field(of.recorded, "startWatches")
	var all []watched
	for i := range sources.Len() {
		watch, err := m.watched(sources.Index(i))
		if err != nil {
			return nil, err
		}
		all = append(all, watch)
	}
	return all, nil
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

// narrow applies Options.ByObject and Options.Prune to a watch.
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
	for object, paths := range m.options.Prune {
		kind, err := apiutil.GVKForObject(object, m.scheme)
		if err != nil {
			return fmt.Errorf("Options.Prune: %w", err)
		}
		if kind == watch.kind {
			watch.source = watch.source.WithPruned(paths...)
		}
	}
	return nil
}

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
				// Without a filter no event is lost, but more may pass. ResourceVersionChanged would drop the resync, which
				// passes each of the others.
				return nil, nil
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
