// Package operettatest runs reconcilers in `go test`, on an API server for tests.
//
// A [Cluster] is an empty cluster of its own on the test server, a part of the program operetta: an API server with
// CRDs, validation, defaults, server-side apply and all that reconcilers rely on. It runs reconcilers as the host does,
// and records their writes, Events and log lines:
//
//	cluster := operettatest.New(t, &Foo{…})
//	result, err := cluster.Reconcile(plugin(), "foo", operetta.Key{Namespace: "ns", Name: "a"})
//	deployment := operettatest.Get[Deployment](cluster, operetta.Key{Namespace: "ns", Name: "a"})
//
// If the test fails, the objects of the cluster and the calls are part of its log.
//
// # The test server
//
// `operetta test` starts a server and runs `go test ./...` with it. A plain `go test` works, too: the first cluster of a
// package starts a server, which needs the program operetta on PATH, or its path in the environment variable OPERETTA.
//
// The server has the CRDs of the project. It makes a CRD without a schema for each other kind at the first object that a
// test adds or the plugin creates; [Cluster.Define] says more about such a kind.
//
// # Limits
//
// A Cluster runs no controllers: nothing is garbage collected, no Pod becomes ready, and a test changes objects itself
// through [Cluster.Client]. The reconciler may do everything: the cluster does not check the plugin's permissions.
package operettatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"operetta.dev/sdk-go"
)

// Verb is a kind of call, for [Cluster.FailNext] and [Cluster.Writes].
type Verb string

// The verbs.
const (
	VerbGet          Verb = "Get"
	VerbList         Verb = "List"
	VerbCreate       Verb = "Create"
	VerbUpdate       Verb = "Update"
	VerbUpdateStatus Verb = "UpdateStatus"
	VerbPatch        Verb = "Patch"
	VerbDelete       Verb = "Delete"
)

// Write is a write that the cluster accepted.
type Write struct {
	Verb Verb
	Kind operetta.GroupVersionKind
	Key  operetta.Key
}

// String returns a short form, e.g. `Create Deployment ns/web`.
func (w Write) String() string { return fmt.Sprintf("%s %s %s", w.Verb, w.Kind.Kind, w.Key) }

// LogLine is one line of the plugin's log.
type LogLine struct {
	Level   operetta.LogLevel
	Message string
	Fields  []operetta.LogField
}

// Field returns the value of the line's field of a name; empty if it has none.
func (l LogLine) Field(name string) string {
	for _, field := range l.Fields {
		if field.Name == name {
			return field.Value
		}
	}
	return ""
}

type fault struct {
	verb Verb
	err  error
}

// Cluster is a cluster of the test server, which ends with the test. It may be used by several goroutines.
type Cluster struct {
	t testing.TB

	lock sync.Mutex
	// connection is nil until the first call that needs the server.
	connection *connection
	// manifest is the text of the manifest that the server knows.
	manifest   string
	config     []byte
	raw        func(operetta.RawRequest) operetta.RawResponse
	faults     []fault
	writes     []Write
	events     []operetta.Event
	logs       []LogLine
	reconciles int
}

// New returns a cluster with these objects, as [Cluster.Add] adds them.
func New(t testing.TB, objects ...operetta.Object) *Cluster {
	t.Helper()
	cluster := &Cluster{t: t, config: []byte("{}")}
	t.Cleanup(cluster.close)
	for _, object := range objects {
		cluster.Add(object)
	}
	return cluster
}

// close ends the cluster. If the test has failed, it logs the objects and the calls.
func (c *Cluster) close() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.connection == nil {
		return
	}
	if c.t.Failed() {
		var dump string
		text, err := c.connection.call("dump", arguments{})
		if err == nil {
			err = json.Unmarshal(text, &dump)
		}
		if err != nil {
			dump = err.Error()
		}
		c.t.Logf("the cluster at the end of the test:\n%s", dump)
	}
	_ = c.connection.socket.Close()
}

// call sends a request to the test server. The error is that of the API server; any other failure ends the test. The lock
// must be held.
func (c *Cluster) call(name string, arguments arguments) (json.RawMessage, error) {
	c.t.Helper()
	result, err := c.try(name, arguments)
	if api := (*operetta.APIError)(nil); err != nil && !errors.As(err, &api) {
		c.t.Fatal(err)
	}
	return result, err
}

// try sends a request to the test server, and connects before the first one. The lock must be held.
func (c *Cluster) try(name string, arguments arguments) (json.RawMessage, error) {
	c.t.Helper()
	if c.connection == nil {
		address, err := serverAddress()
		if err == nil {
			c.connection, err = connect(address)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return c.connection.call(name, arguments)
}

// Add adds an object with its status, and with its deletionTimestamp if it has finalizers. The API server sets the
// resourceVersion, and uid, generation and creationTimestamp where they are missing. An object that it rejects fails the
// test.
func (c *Cluster) Add(object operetta.Object) {
	c.t.Helper()
	text, err := json.Marshal(object)
	if err == nil {
		err = c.AddJSON(operetta.KindOfObject(object), text)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// AddJSON adds an object of a kind, as JSON. It returns an error if the API server rejects the object.
func (c *Cluster) AddJSON(kind operetta.GroupVersionKind, text []byte) error {
	c.t.Helper()
	typed, err := withType(text, kind)
	if err != nil {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	_, err = c.try("add", arguments{"object": typed})
	return err
}

// withType returns the members of an object of a kind, with apiVersion and kind.
func withType(text []byte, kind operetta.GroupVersionKind) (map[string]any, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, fmt.Errorf("this %s is not a JSON object: %s", kind, text)
	}
	typed := map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind}
	for name, value := range members {
		if want, found := typed[name]; found && string(value) != fmt.Sprintf("%q", want) {
			return nil, fmt.Errorf("the object's %s is %s, not %q", name, value, want)
		}
		typed[name] = value
	}
	return typed, nil
}

// SetConfig sets the Plugin object's `spec.config`.
func (c *Cluster) SetConfig(config any) {
	c.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		c.t.Fatalf("the config cannot be written as JSON: %v", err)
	}
	c.config = text
}

// Definition is a custom resource without a schema, for [Cluster.Define].
type Definition struct {
	Kind operetta.GroupVersionKind
	// Plural is the name in URLs; empty is that which kubectl guesses, e.g. `foos` and `policies`.
	Plural string
	// ClusterScoped is true if its objects have no namespace.
	ClusterScoped bool
	// WithoutStatus is true if the kind has no status subresource, so that its status is an ordinary field.
	WithoutStatus bool
}

// Define makes the API server serve a custom resource. By default it serves each kind once there is an object of it, with
// a status subresource, and namespaced if that object is. Call Define before there is one.
func (c *Cluster) Define(definition Definition) {
	c.t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	arguments := arguments{
		"kind": wireKind(definition.Kind), "namespaced": !definition.ClusterScoped, "status": !definition.WithoutStatus,
	}
	if definition.Plural != "" {
		arguments["plural"] = definition.Plural
	}
	if _, err := c.call("define", arguments); err != nil {
		c.t.Fatalf("defining %s: %v", definition.Kind, err)
	}
}

// WithoutStatusSubresource declares that a namespaced custom resource has no status subresource, so that its status is an
// ordinary field, as [Cluster.Define] does.
func (c *Cluster) WithoutStatusSubresource(kind operetta.GroupVersionKind) {
	c.t.Helper()
	c.Define(Definition{Kind: kind, WithoutStatus: true})
}

// OnRaw sets the function that answers raw requests instead of the API server.
func (c *Cluster) OnRaw(answer func(operetta.RawRequest) operetta.RawResponse) { c.raw = answer }

// FailNext makes the next call of this verb fail. Several faults are used in order.
func (c *Cluster) FailNext(verb Verb, err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.faults = append(c.faults, fault{verb, err})
}

// Reconcile reconciles a key for the first time.
func (c *Cluster) Reconcile(plugin operetta.Handler, controller string, key operetta.Key) (operetta.Result, error) {
	c.t.Helper()
	return c.ReconcileRequest(plugin, operetta.Request{Controller: controller, Key: key})
}

// reconciling is locked while slog's default logger is a cluster's.
var reconciling sync.Mutex

// ReconcileRequest reconciles a request, e.g. one with retries. A plugin that the host would reject fails the test.
// During the call slog's default logger is this cluster's, so reconciles of parallel tests run one after another.
func (c *Cluster) ReconcileRequest(plugin operetta.Handler, request operetta.Request) (operetta.Result, error) {
	c.t.Helper()
	text, err := plugin.Describe()
	if err != nil {
		c.t.Fatalf("the plugin cannot be described: %v", err)
	}
	c.declare(string(text))
	c.TakeWarnings() // those of earlier calls are not about this reconcile
	c.lock.Lock()
	c.reconciles++
	if request.ReconcileID == "" {
		request.ReconcileID = fmt.Sprintf("test-%d", c.reconciles)
	}
	c.lock.Unlock()

	reconciling.Lock()
	defer reconciling.Unlock()
	before := slog.Default()
	slog.SetDefault(slog.New(operetta.NewLogHandler(c)))
	defer slog.SetDefault(before)
	return plugin.Reconcile(c, request)
}

// declare sends the manifest to the server, unless it is the last one sent.
func (c *Cluster) declare(manifest string) {
	c.t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	if manifest == c.manifest {
		return
	}
	if _, err := c.call("manifest", arguments{"manifest": manifest}); err != nil {
		c.t.Fatalf("the host rejects the plugin's manifest: %v", err)
	}
	c.manifest = manifest
}

// Client returns a client of this cluster, to read and change objects as a user would. Its writes are recorded, too.
func (c *Cluster) Client() *operetta.Client { return operetta.NewClient(c) }

// Get returns the object of a key; nil if there is none. An object that does not fit the type fails the test.
func Get[T any, P operetta.Pointer[T]](c *Cluster, key operetta.Key) P {
	c.t.Helper()
	object := P(new(T))
	kind := operetta.KindOfObject(object)
	text, err := c.stored(kind, key)
	if operetta.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Fatalf("reading %s %s: %v", kind, key, err)
	}
	if err := json.Unmarshal(text, object); err != nil {
		c.t.Fatalf("%s %s does not fit the type %T: %v", kind, key, object, err)
	}
	return object
}

// stored returns an object as the API server has it, apart from the faults that the test has planned.
func (c *Cluster) stored(kind operetta.GroupVersionKind, key operetta.Key) (json.RawMessage, error) {
	c.t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.call("get", arguments{"kind": wireKind(kind), "key": wireKey(key), "read": "live"})
}

// Writes returns the writes since the last call of this function, in order.
func (c *Cluster) Writes() []Write { return taken(c, &c.writes) }

// WritesAsText returns the writes since the last call, in the form of [Write.String].
func (c *Cluster) WritesAsText() []string {
	var texts []string
	for _, write := range c.Writes() {
		texts = append(texts, write.String())
	}
	return texts
}

// Events returns the events since the last call of this function, in order.
func (c *Cluster) Events() []operetta.Event { return taken(c, &c.events) }

// Logs returns the log lines of every level since the last call of this function, in order.
func (c *Cluster) Logs() []LogLine { return taken(c, &c.logs) }

func taken[T any](c *Cluster, from *[]T) []T {
	c.lock.Lock()
	defer c.lock.Unlock()
	of := *from
	*from = nil
	return of
}

// fail returns the error that the test has planned for this call.
func (c *Cluster) fail(verb Verb) error {
	for i, planned := range c.faults {
		if planned.verb == verb {
			c.faults = slices.Delete(c.faults, i, i+1)
			return planned.err
		}
	}
	return nil
}
