// Package operettatest runs reconcilers in `go test`, without a cluster.
//
// A [Cluster] is an API server in memory with the semantics that reconcilers rely on: resourceVersions and conflicts,
// already-exists, uids, generations, the status subresource, finalizers and deletionTimestamps, label selectors, owners
// and declared indexes, merge and JSON patches. It runs reconcilers as the host does, and records their Events and log
// lines:
//
//	cluster := operettatest.New(t, &Foo{…})
//	result, err := cluster.Reconcile(plugin(), "foo", operetta.Key{Namespace: "ns", Name: "a"})
//	deployment := operettatest.Get[Deployment](cluster, operetta.Key{Namespace: "ns", Name: "a"})
//
// # Limits
//
// A Cluster has no schemas, so it does not validate, default or prune fields. It runs no controllers: nothing is
// garbage collected, no Pod becomes ready, and a test changes objects itself through [Cluster.Client]. It has no RBAC.
// It rejects server-side apply, strict validation, generateName, foreground and orphan deletion, the scale subresource
// and raw requests (but see [Cluster.OnRaw]) with an error.
package operettatest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

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

// Cluster is an API server in memory. It may be used by several goroutines.
type Cluster struct {
	t testing.TB

	lock       sync.Mutex
	store      *store
	indexes    []operetta.IndexManifest
	config     []byte
	raw        func(operetta.RawRequest) operetta.RawResponse
	faults     []fault
	writes     []Write
	events     []operetta.Event
	logs       []LogLine
	reconciles int
}

// New returns a cluster with these objects, including their status and deletionTimestamp. Missing fields that the API
// server sets (uid, resourceVersion, creationTimestamp, generation) are set.
func New(t testing.TB, objects ...operetta.Object) *Cluster {
	t.Helper()
	cluster := &Cluster{t: t, store: newStore(), config: []byte("{}")}
	for _, object := range objects {
		cluster.Add(object)
	}
	return cluster
}

// Add adds an object as [New] does.
func (c *Cluster) Add(object operetta.Object) {
	c.t.Helper()
	text, err := json.Marshal(object)
	if err == nil {
		err = c.AddJSON(operetta.KindOfObject(object), text)
	}
	if err != nil {
		c.t.Fatalf("adding %s %s: %v", operetta.KindOfObject(object), operetta.KeyOf(object), err)
	}
}

// AddJSON adds an object of a kind, as JSON.
func (c *Cluster) AddJSON(kind operetta.GroupVersionKind, text []byte) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.store.seed(kind, text)
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

// WithoutStatusSubresource declares that a kind has no status subresource, so that its status is an ordinary field. By
// default all kinds have one, except built-in kinds without a status.
func (c *Cluster) WithoutStatusSubresource(kind operetta.GroupVersionKind) {
	c.store.noStatus[kind] = true
}

// OnRaw sets the function that answers raw requests. Without it the response is 501 NotImplemented.
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
	var manifest operetta.Manifest
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		c.t.Fatalf("the plugin cannot be described: %v", err)
	}
	c.lock.Lock()
	c.indexes = manifest.Indexes
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

// Client returns a client of this cluster, to read and change objects as a user would. Its writes are recorded, too.
func (c *Cluster) Client() *operetta.Client { return operetta.NewClient(c) }

// Get returns the object of a key; nil if there is none. An object that does not fit the type fails the test.
func Get[T any, P operetta.Pointer[T]](c *Cluster, key operetta.Key) P {
	c.t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	object := P(new(T))
	there, found := c.store.objects[id{operetta.KindOfObject(object), key}]
	if !found {
		return nil
	}
	if err := json.Unmarshal(encode(there), object); err != nil {
		c.t.Fatalf("%s %s does not fit the type %T: %v", operetta.KindOfObject(object), key, object, err)
	}
	return object
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

// now returns the time of a clock that advances with each write and is the same in each run.
func now(version int) string {
	return time.Date(2030, 1, 1, 0, 0, version, 0, time.UTC).Format(time.RFC3339)
}
