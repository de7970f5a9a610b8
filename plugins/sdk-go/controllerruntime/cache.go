package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// indexes holds the functions that IndexField registered. The host cannot run them: a list that uses one reads all
// objects of the kind in the namespace from the cache, and runs the function on each. An index of
// Options.ControllerIndexes is the host's, too: a list reads only the objects with its value.
type indexes struct {
	scheme *runtime.Scheme
	// ofHost names the indexes of Options.ControllerIndexes.
	ofHost []string
	lock   sync.Mutex
	by     map[indexName]client.IndexerFunc
}

type indexName struct {
	kind  schema.GroupVersionKind
	field string
}

func newIndexes(scheme *runtime.Scheme, ofHost []string) *indexes {
	return &indexes{scheme: scheme, ofHost: ofHost, by: map[indexName]client.IndexerFunc{}}
}

// IndexField registers an index.
func (i *indexes) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	kind, err := apiutil.GVKForObject(object, i.scheme)
	if err != nil {
		return err
	}
	i.lock.Lock()
	defer i.lock.Unlock()
	name := indexName{kind, field}
	if _, found := i.by[name]; found {
		return fmt.Errorf("the index %q on %s is registered twice", field, kind.Kind)
	}
	i.by[name] = extract
	return nil
}

func (i *indexes) get(kind schema.GroupVersionKind, field string) (client.IndexerFunc, bool) {
	i.lock.Lock()
	defer i.lock.Unlock()
	extract, found := i.by[indexName{kind, field}]
	return extract, found
}

// kinds returns the kinds that have an index of this name, in order.
func (i *indexes) kinds(field string) []schema.GroupVersionKind {
	i.lock.Lock()
	defer i.lock.Unlock()
	var kinds []schema.GroupVersionKind
	for name := range i.by {
		if name.field == field {
			kinds = append(kinds, name.kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

func (i *indexes) newObject(kind schema.GroupVersionKind) (client.Object, error) {
	created, err := i.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	object, ok := created.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not a client.Object", created)
	}
	return object, nil
}

// has reports whether an object, as JSON, has a value in an index.
func (i *indexes) has(kind schema.GroupVersionKind, extract client.IndexerFunc, text []byte, value string) (bool, error) {
	object, err := i.newObject(kind)
	if err != nil {
		return false, err
	}
	if err := unmarshal(text, object); err != nil {
		return false, err
	}
	return slices.Contains(extract(object), value), nil
}

// noInformers is a cache.Cache without informers, for reads only.
type noInformers struct {
	client.Reader
	*indexes
}

var errNoInformers = errors.New("informers are not supported: the host watches the kinds of For, Owns and Watches")

func (noInformers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errNoInformers
}

func (noInformers) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errNoInformers
}

func (noInformers) RemoveInformer(context.Context, client.Object) error { return nil }
func (noInformers) Start(context.Context) error                         { return errNoInformers }

// WaitForCacheSync returns true: the host calls a reconciler only after its caches have synced.
func (noInformers) WaitForCacheSync(context.Context) bool { return true }
