package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"operetta.dev/sdk-go"
)

// AddToScheme is the function that API packages export under this name.
type AddToScheme = func(*runtime.Scheme) error

// Options are the manager's options that apply to a plugin.
type Options struct {
	// AddToScheme registers the API groups that the reconcilers use in addition to those of client-go's scheme.
	AddToScheme []AddToScheme
	// OwnNamespace restricts the watches to the Plugin's own namespace. By default they cover all namespaces.
	OwnNamespace bool
	// ByObject filters the watched objects of a kind by Label and Field, as cache.Options.ByObject does.
	ByObject map[client.Object]cache.ByObject
	// Prune leaves fields of a watched kind's objects out of the host's cache, which then needs less memory: paths such as
	// `.status` or `.metadata.annotations`. Handlers get the objects without them. The client returns whole objects, but the
	// API server answers instead of the cache.
	Prune map[client.Object][]string
	// LabelIndexes indexes a kind's cached objects by labels, e.g. `app.kubernetes.io/name`: a list by MatchingLabels that
	// requires one value of such a label reads only the objects with that value.
	LabelIndexes map[client.Object][]string
	// ControllerIndexes names the indexes of IndexField whose value is the name of the object's controller, such as the
	// `.metadata.controller` of kubebuilder's tutorial. The host keeps them: a list by MatchingFields reads only the objects
	// of that controller, not all objects of the kind in the namespace. A function that returns anything else is an error of
	// the manifest.
	ControllerIndexes []string
	// Finalizers names the finalizers that the reconciler of a kind puts on its objects, e.g. by controllerutil.AddFinalizer.
	// A deleted Plugin runs until it has removed them from the objects that are being deleted, so that `kubectl delete
	// namespace` ends. With them, `operetta generate rbac` grants the verbs update and patch on the kind.
	Finalizers map[client.Object][]string
	// WarningHandler gets the API server's warnings, such as `unknown field "spec.colour"`, with the context of the call, like
	// the one of a rest.Config. By default they are logged by the logger of the context, as controller-runtime does;
	// rest.NoWarnings{} drops them. The host reports each text once in any case.
	WarningHandler rest.WarningHandlerWithContext
}

// Run makes the program a plugin. Call it once, from func init of package main.
//
// Setup runs when the program starts, like the setup in a main: it registers reconcilers with the manager. The client
// works only in reconcilers. An error of setup is reported when the host reads the manifest.
func Run(setup func(ctrl.Manager) error, options Options) {
	handler := NewHandler(setup, options)
	operetta.ServeHandler(func() operetta.Handler { return handler })
}

// NewHandler returns the handler that [Run] serves, for tests with operettatest.Cluster.
func NewHandler(setup func(ctrl.Manager) error, options Options) operetta.Handler {
	h := &served{}
	h.manager, h.err = newManager(options)
	if h.err != nil {
		return h
	}
	logger := newLoggerOf(h.manager.api)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if err := setup(h.manager); err != nil {
		h.err = fmt.Errorf("the setup failed: %w", err)
	}
	return h
}

type served struct {
	manager *manager
	err     error
}

func (h *served) Describe() (text []byte, err error) {
	if h.err != nil {
		return nil, h.err
	}
	manifest, err := h.manager.manifest()
	if err != nil {
		return nil, err
	}
	h.manager.rehearse()
	return json.Marshal(manifest)
}

func (h *served) Reconcile(api operetta.API, request operetta.Request) (result operetta.Result, err error) {
	defer operetta.RecoverPanic(api, &err)
	if h.err != nil {
		return operetta.Done(), operetta.Terminal(h.err)
	}
	of, err := h.manager.controller(request.Controller)
	if err != nil {
		return operetta.Done(), operetta.Terminal(err)
	}
	h.manager.api.use(api)
	// Its seed is the time of the program's start, which is that of the snapshot: names would repeat in each reconcile.
	utilrand.Seed(time.Now().UnixNano())

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx = ctrl.LoggerInto(ctx, newLogger(api))
	answer, err := of.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: request.Key.Namespace, Name: request.Key.Name,
	}})
	// The API server may have had to answer a cached read, after which the client does not look for warnings.
	h.manager.client(operetta.Cached).warned(ctx)
	switch {
	case errors.Is(err, reconcile.TerminalError(nil)):
		return operetta.Done(), operetta.Terminal(err)
	case err != nil:
		return operetta.Done(), err
	case answer.RequeueAfter > 0:
		return operetta.RequeueAfter(answer.RequeueAfter), nil
	case answer.Requeue: //nolint:staticcheck // reconcilers still use it
		return operetta.Requeue(), nil
	}
	return operetta.Done(), nil
}

func newScheme(options Options) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range append([]AddToScheme{clientgoscheme.AddToScheme}, options.AddToScheme...) {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("the scheme: %w", err)
		}
	}
	return scheme, nil
}
