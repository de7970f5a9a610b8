package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"unsafe"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"operetta.dev/sdk-go"
)

// manager is a ctrl.Manager that records controllers instead of running them.
type manager struct {
	options     Options
	api         *held
	scheme      *runtime.Scheme
	mapper      *restMapper
	indexes     *indexes
	config      *rest.Config
	elected     chan struct{}
	controllers []*controller
}

var _ ctrlmanager.Manager = (*manager)(nil)

// controller is a recorded controller.
type controller struct {
	// name is the author's name of the controller, label its name in the manifest.
	name, label string
	reconciler  reconcile.Reconciler
	// recorded is controller-runtime's internal Controller.
	recorded reflect.Value
}

func newManager(options Options) (*manager, error) {
	scheme, err := newScheme(options)
	if err != nil {
		return nil, err
	}
	api := &held{}
	m := &manager{options: options, api: api, scheme: scheme, mapper: newRESTMapper(api), indexes: newIndexes(scheme, options.ControllerIndexes), elected: make(chan struct{})}
	m.config = &rest.Config{Host: "http://operetta", Transport: &transport{api: api}, WarningHandlerWithContext: warningHandler(options)}
	close(m.elected)
	return m, nil
}

// Add records a controller.
func (m *manager) Add(runnable ctrlmanager.Runnable) error {
	reconciler, ok := runnable.(reconcile.Reconciler)
	value := reflect.ValueOf(runnable)
	if !ok || value.Kind() != reflect.Pointer || !value.Elem().FieldByName("startWatches").IsValid() {
		return fmt.Errorf("a Runnable (%T) is not supported: a plugin runs only while a key is reconciled", runnable)
	}
	name := value.Elem().FieldByName("Name").String()
	label, err := dnsLabel(name)
	if err != nil {
		return err
	}
	for _, other := range m.controllers {
		if other.label == label {
			return fmt.Errorf("two controllers have the name %q: set another one with Named()", label)
		}
	}
	m.controllers = append(m.controllers, &controller{name: name, label: label, reconciler: reconciler, recorded: value.Elem()})
	return nil
}

func (m *manager) controller(label string) (*controller, error) {
	for _, of := range m.controllers {
		if of.label == label {
			return of, nil
		}
	}
	return nil, fmt.Errorf("the plugin has no controller %q", label)
}

// rehearse encodes and decodes an empty object of each watched kind, and an empty list of them. encoding/json, which
// client.MergeFrom uses, and the SDK's codec examine a type when they meet it first, which takes milliseconds for one with a
// Pod's template. `operetta build` takes its snapshot afterwards, so that no reconcile has to do it.
func (m *manager) rehearse() {
	for _, of := range m.controllers {
		watches, err := m.watches(of)
		if err != nil {
			continue
		}
		for _, watch := range watches {
			if list, err := m.scheme.New(watch.kind.GroupVersion().WithKind(watch.kind.Kind + "List")); err == nil {
				_ = decode([]byte("{}"), list)
			}
			object := watch.object.DeepCopyObject()
			// An unstructured object without a kind has no text, and no type that is to be examined.
			if text, err := json.Marshal(object); err == nil {
				_ = decode(text, object)
			}
		}
	}
}

// field reads a struct's field, exported or not.
func field(of reflect.Value, name string) reflect.Value {
	value := of.FieldByName(name)
	if !value.IsValid() || value.CanInterface() {
		return value
	}
	if !value.CanAddr() {
		copied := reflect.New(of.Type()).Elem()
		copied.Set(of)
		value = copied.FieldByName(name)
	}
	return reflect.NewAt(value.Type(), unsafe.Pointer(value.UnsafeAddr())).Elem()
}

func (m *manager) GetControllerOptions() config.Controller {
	yes, no := true, false
	// This manager checks names; the SDK reports panics with their location.
	return config.Controller{SkipNameValidation: &yes, RecoverPanic: &no, Logger: m.GetLogger()}
}

func (m *manager) GetClient() client.Client             { return m.client(operetta.Cached) }
func (m *manager) GetAPIReader() client.Reader          { return m.client(operetta.Live) }
func (m *manager) GetCache() cache.Cache                { return noInformers{m.client(operetta.Cached), m.indexes} }
func (m *manager) GetFieldIndexer() client.FieldIndexer { return m.indexes }
func (m *manager) GetScheme() *runtime.Scheme           { return m.scheme }
func (m *manager) GetRESTMapper() meta.RESTMapper       { return m.mapper }
func (m *manager) GetConfig() *rest.Config              { return rest.CopyConfig(m.config) }
func (m *manager) GetHTTPClient() *http.Client          { return &http.Client{Transport: m.config.Transport} }
func (m *manager) GetLogger() logr.Logger               { return newLoggerOf(m.api) }
func (m *manager) Elected() <-chan struct{}             { return m.elected }

func (m *manager) client(read operetta.Read) *kubeClient {
	return &kubeClient{
		api: m.api, scheme: m.scheme, mapper: m.mapper, indexes: m.indexes, read: read,
		warnings: m.config.WarningHandlerWithContext,
	}
}

func (m *manager) GetEventRecorderFor(string) record.EventRecorder {
	return eventRecorder{m.api, m.scheme}
}

func (m *manager) GetEventRecorder(string) recorder.EventRecorder {
	return newEventRecorder{eventRecorder{m.api, m.scheme}}
}

// The host implements metrics, health checks and leader election.

func (m *manager) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }
func (m *manager) AddHealthzCheck(string, healthz.Checker) error           { return nil }
func (m *manager) AddReadyzCheck(string, healthz.Checker) error            { return nil }
func (m *manager) GetConverterRegistry() conversion.Registry               { return conversion.NewRegistry() }

func (m *manager) GetWebhookServer() webhook.Server {
	panic("webhooks are not supported: leave SetupWebhookWithManager out of the setup")
}

func (m *manager) Start(context.Context) error {
	return errors.New("starting the manager is not supported, because the host runs the controllers: pass Run a setup that only registers them")
}
