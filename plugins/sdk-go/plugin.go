// Plugins and their controllers.

package operetta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Handler has the exports of a plugin. [Plugin] is one; the module controllerruntime has another.
type Handler interface {
	// Describe returns the manifest as JSON.
	Describe() ([]byte, error)
	// Reconcile brings one key to its desired state.
	Reconcile(api API, request Request) (Result, error)
	// MapEvent returns the keys that the change of a watched object enqueues. Its API has the log and the configuration;
	// the host rejects all other calls.
	MapEvent(api API, event MapEvent) ([]Key, error)
}

// Plugin is a set of controllers and the indexes of their reads.
type Plugin struct {
	controllers []*Controller
	indexes     []IndexManifest
}

// NewPlugin returns a plugin of these controllers.
func NewPlugin(controllers ...*Controller) *Plugin { return &Plugin{controllers: controllers} }

// Index declares an index over the cached objects of a kind, for [ListOptions].Index: path is the path of the
// value, e.g. `.spec.nodeName`.
func (p *Plugin) Index(name string, kind GroupVersionKind, path string) *Plugin {
	return p.index(IndexManifest{Name: name, APIVersion: kind.APIVersion, Kind: kind.Kind, Path: path})
}

// IndexByLabel declares an index of the cached objects of a kind by the value of a label, e.g. `app.kubernetes.io/name`.
// Cached lists whose label selector requires one value of that label use it, too.
func (p *Plugin) IndexByLabel(name string, kind GroupVersionKind, label string) *Plugin {
	return p.index(IndexManifest{Name: name, APIVersion: kind.APIVersion, Kind: kind.Kind, Label: label})
}

// IndexByController declares an index of the cached objects of a kind by the name of their controlling owner, if that is
// of the kind owner. It finds the children of an owner by name, even if the owner no longer exists.
func (p *Plugin) IndexByController(name string, kind, owner GroupVersionKind) *Plugin {
	controller := &OwnerKind{APIVersion: owner.APIVersion, Kind: owner.Kind}
	return p.index(IndexManifest{Name: name, APIVersion: kind.APIVersion, Kind: kind.Kind, Controller: controller})
}

func (p *Plugin) index(index IndexManifest) *Plugin {
	p.indexes = append(p.indexes, index)
	return p
}

// Manifest returns the manifest. It returns an error if two controllers have the same name, one has no name, or the
// function of a watch maps another kind than it watches.
func (p *Plugin) Manifest() (Manifest, error) {
	manifest := NewManifest()
	if len(p.controllers) == 0 {
		return manifest, errors.New("the plugin has no controller: give NewPlugin at least one")
	}
	seen := map[string]bool{}
	for _, controller := range p.controllers {
		switch {
		case controller.name == "":
			return manifest, fmt.Errorf("the controller for %s %s has no name", controller.source.APIVersion, controller.source.Kind)
		case seen[controller.name]:
			return manifest, fmt.Errorf("two controllers have the name %q: names must differ", controller.name)
		}
		seen[controller.name] = true
		if err := controller.checkMappings(); err != nil {
			return manifest, err
		}
		manifest.Controllers = append(manifest.Controllers, controller.manifest())
	}
	manifest.Indexes = p.indexes
	return manifest, nil
}

// Describe returns the manifest as JSON.
func (p *Plugin) Describe() ([]byte, error) {
	manifest, err := p.Manifest()
	if err != nil {
		return nil, err
	}
	rehearse(p.types())
	return json.Marshal(manifest)
}

// Reconcile calls the controller that the request names. A panic becomes a *[PanicError].
func (p *Plugin) Reconcile(api API, request Request) (result Result, err error) {
	defer RecoverPanic(api, &err)
	for _, controller := range p.controllers {
		if controller.name == request.Controller {
			return controller.reconcile(WithRequest(context.Background(), request), NewClient(api))
		}
	}
	return Result{}, Terminalf("the plugin has no controller %q", request.Controller)
}

// ReconcileFunc brings the object of the key of [RequestFrom](ctx) to its desired state. The object may not exist. An
// error is retried with backoff, unless it is [Terminal].
type ReconcileFunc func(ctx context.Context, client *Client) (Result, error)

// Controller is a kind to reconcile, the watches that enqueue keys of that kind, and the reconcile function.
type Controller struct {
	name         string
	source       Source
	owns         []Source
	watches      []Watch
	finalizers   []string
	workers      uint32
	resync       time.Duration
	limiter      *RateLimiter
	ownNamespace bool
	filters      []Predicate
	whenGone     ReconcileFunc
	reconcile    ReconcileFunc
}

// NewController returns a controller. name is a DNS label, source the kind whose keys it reconciles.
func NewController(name string, source Source, reconcile ReconcileFunc) *Controller {
	return &Controller{name: name, source: source, reconcile: reconcile, workers: 1}
}

// For returns a controller whose function takes the object itself, read from the cache. A key without an object is
// passed to [Controller.WhenGone]. An object that does not fit the type is a terminal error.
func For[T any, P Pointer[T]](name string, reconcile func(context.Context, *Client, P) (Result, error)) *Controller {
	controller := NewController(name, Of[T, P](), nil)
	controller.reconcile = func(ctx context.Context, client *Client) (Result, error) {
		object := P(new(T))
		text, err := client.api.Get(KindOfObject(object), RequestFrom(ctx).Key, Cached)
		switch {
		case IsNotFound(err) && controller.whenGone != nil:
			return controller.whenGone(ctx, client)
		case err != nil:
			return Result{}, IgnoreNotFound(err)
		}
		if err := decode(text, object); err != nil {
			return Result{}, Terminal(err)
		}
		return reconcile(ctx, client, object)
	}
	return controller
}

// WithSource filters the objects and events of the controller's kind, e.g. by a selector.
func (c *Controller) WithSource(source Source) *Controller { c.source = source; return c }

// WhenGone sets the function for keys whose object does not exist, for a controller of [For]. The default does nothing.
func (c *Controller) WhenGone(reconcile ReconcileFunc) *Controller {
	c.whenGone = reconcile
	return c
}

// Owns adds a kind whose objects this controller creates: their events enqueue the controlling owner.
func (c *Controller) Owns(source Source) *Controller { c.owns = append(c.owns, source); return c }

// Watches adds another kind whose events enqueue keys by a mapping.
func (c *Controller) Watches(source Source, mapping Mapping) *Controller {
	c.watches = append(c.watches, Watch{Source: source, Map: mapping})
	return c
}

// Finalizer declares a finalizer that the controller puts on the objects that it reconciles, e.g. by [AddFinalizer]. With
// it, `operetta generate rbac` grants the verbs update and patch on the kind.
func (c *Controller) Finalizer(name string) *Controller {
	c.finalizers = append(c.finalizers, name)
	return c
}

// Workers sets the number of concurrent reconciles, 1 to 64; the default is 1. A key is never reconciled twice at a
// time.
func (c *Controller) Workers(workers uint32) *Controller { c.workers = workers; return c }

// Resync sets the interval after which every key is enqueued again, rounded up to a second; the default is never.
func (c *Controller) Resync(period time.Duration) *Controller { c.resync = period; return c }

// RateLimit sets the rate limiter of failed and requeued keys.
func (c *Controller) RateLimit(limiter RateLimiter) *Controller { c.limiter = &limiter; return c }

// InOwnNamespace restricts every source to the Plugin's own namespace.
func (c *Controller) InOwnNamespace() *Controller { c.ownNamespace = true; return c }

// EventFilter adds predicates to every source (controller-runtime's WithEventFilter).
func (c *Controller) EventFilter(predicates ...Predicate) *Controller {
	c.filters = append(c.filters, predicates...)
	return c
}

func (c *Controller) manifest() ControllerManifest {
	manifest := ControllerManifest{
		Name: c.name, For: c.everywhere(c.source), Finalizers: c.finalizers, Workers: c.workers,
		ResyncSeconds: clamp(int64((c.resync + time.Second - 1) / time.Second)), RateLimiter: c.limiter,
	}
	for _, source := range c.owns {
		manifest.Owns = append(manifest.Owns, c.everywhere(source))
	}
	for _, watch := range c.watches {
		manifest.Watches = append(manifest.Watches, Watch{Source: c.everywhere(watch.Source), Map: watch.Map})
	}
	return manifest
}

// everywhere returns a source with the settings for all sources of the controller.
func (c *Controller) everywhere(source Source) Source {
	source = source.WithPredicates(c.filters...)
	if c.ownNamespace {
		source = source.InOwnNamespace()
	}
	return source
}
