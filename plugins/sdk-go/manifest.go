// The watches of a plugin. As JSON, these types are the manifest of wit/manifest.schema.json.

package operetta

import (
	"math"
	"reflect"
	"slices"
	"time"
)

// Manifest is the document that `describe` returns. Authors do not write it: [Plugin] does.
type Manifest struct {
	APIVersion  string               `json:"apiVersion"`
	Kind        string               `json:"kind"`
	Controllers []ControllerManifest `json:"controllers"`
	Indexes     []IndexManifest      `json:"indexes,omitempty"`
}

// NewManifest returns a manifest of these controllers.
func NewManifest(controllers ...ControllerManifest) Manifest {
	return Manifest{APIVersion: "operetta.dev/v1alpha1", Kind: "Manifest", Controllers: controllers}
}

// ControllerManifest is one controller of a [Manifest].
type ControllerManifest struct {
	Name          string       `json:"name"`
	For           Source       `json:"for"`
	Owns          []Source     `json:"owns,omitempty"`
	Watches       []Watch      `json:"watches,omitempty"`
	Finalizers    []string     `json:"finalizers,omitempty"`
	Workers       uint32       `json:"workers,omitempty"`
	ResyncSeconds uint32       `json:"resyncSeconds,omitempty"`
	RateLimiter   *RateLimiter `json:"rateLimiter,omitempty"`
}

// IndexManifest is one index of a [Manifest], by one of Path, Label and Controller.
type IndexManifest struct {
	Name       string     `json:"name"`
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Path       string     `json:"path,omitempty"`
	Label      string     `json:"label,omitempty"`
	Controller *OwnerKind `json:"controller,omitempty"`
}

// OwnerKind is the kind of the controlling owners of an [IndexManifest].
type OwnerKind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Source is a kind to watch, with filters on its objects and events. Its methods return a changed copy.
type Source struct {
	APIVersion    string      `json:"apiVersion"`
	Kind          string      `json:"kind"`
	Namespaces    string      `json:"namespaces,omitempty"`
	LabelSelector string      `json:"labelSelector,omitempty"`
	FieldSelector string      `json:"fieldSelector,omitempty"`
	Predicates    []Predicate `json:"predicates,omitempty"`
	Prune         []string    `json:"prune,omitempty"`

	// object is the Go type of the objects, a pointer; nil if [Of] did not make the source.
	object reflect.Type
}

// Of returns the source of all objects of a type's kind.
func Of[T any, P Pointer[T]]() Source {
	source := OfKind(KindOf[T, P]())
	source.object = reflect.TypeFor[P]()
	return source
}

// OfKind returns the source of all objects of a kind that has no Go type.
func OfKind(kind GroupVersionKind) Source {
	return Source{APIVersion: kind.APIVersion, Kind: kind.Kind}
}

// WithLabels restricts the source to objects that match a label selector. The API server applies it.
func (s Source) WithLabels(selector string) Source { s.LabelSelector = selector; return s }

// WithFields restricts the source to objects that match a field selector. The API server applies it.
func (s Source) WithFields(selector string) Source { s.FieldSelector = selector; return s }

// WithPredicates restricts the source to events that pass all of the predicates.
func (s Source) WithPredicates(predicates ...Predicate) Source {
	s.Predicates = slices.Clone(s.Predicates)
	for _, predicate := range predicates {
		if !slices.Contains(s.Predicates, predicate) {
			s.Predicates = append(s.Predicates, predicate)
		}
	}
	return s
}

// WithPruned leaves fields of these objects out of the host's cache, which then needs less memory: paths such as
// `.status` or `.metadata.annotations`. A function of [ToKeys] gets the objects without them. Reads return whole objects:
// the API server answers a get, and a list unless its [ListOptions].Projection needs none of the fields.
func (s Source) WithPruned(paths ...string) Source {
	s.Prune = append(slices.Clone(s.Prune), paths...)
	return s
}

// InOwnNamespace restricts the source to the Plugin's own namespace.
func (s Source) InOwnNamespace() Source { s.Namespaces = "Own"; return s }

// Predicate is an event filter, as in controller-runtime's predicate package. It filters updates: creations and
// deletions always pass.
type Predicate string

const (
	// GenerationChanged passes updates that change metadata.generation, as spec changes do.
	GenerationChanged Predicate = "GenerationChanged"
	// LabelsChanged passes updates that change metadata.labels.
	LabelsChanged Predicate = "LabelsChanged"
	// AnnotationsChanged passes updates that change metadata.annotations.
	AnnotationsChanged Predicate = "AnnotationsChanged"
	// ResourceVersionChanged passes updates that change metadata.resourceVersion: not the periodic resync.
	ResourceVersionChanged Predicate = "ResourceVersionChanged"
)

// Watch is a kind to watch, and the mapping from its events to keys.
type Watch struct {
	Source Source  `json:"source"`
	Map    Mapping `json:"map"`
}

// Mapping maps the event of a watched object to the keys to enqueue. [ToKeys] maps it by a function.
type Mapping struct {
	Type          string `json:"type"`
	AllOwners     bool   `json:"allOwners,omitempty"`
	Path          string `json:"path,omitempty"`
	NamespacePath string `json:"namespacePath,omitempty"`

	custom *customMapping
}

// ToOwner enqueues the controlling owner, if it is of the controller's kind. [Controller.Owns] is the short form.
func ToOwner() Mapping { return Mapping{Type: "Owner"} }

// ToAllOwners enqueues every owner of the controller's kind.
func ToAllOwners() Mapping { return Mapping{Type: "Owner", AllOwners: true} }

// ToSameName enqueues the key with the watched object's own namespace and name.
func ToSameName() Mapping { return Mapping{Type: "SameName"} }

// ToFieldPath enqueues the key whose name is at a path, e.g. `.spec.claimRef.name`, in the watched object's namespace.
func ToFieldPath(path string) Mapping { return Mapping{Type: "FieldPath", Path: path} }

// ToFieldPaths enqueues the key whose name and namespace are at two paths.
func ToFieldPaths(name, namespace string) Mapping {
	return Mapping{Type: "FieldPath", Path: name, NamespacePath: namespace}
}

// RateLimiter delays failed and requeued keys by the maximum of a per-key exponential backoff and a token bucket over
// all keys. Begin with [DefaultRateLimiter].
type RateLimiter struct {
	BaseDelayMs uint32 `json:"baseDelayMs"`
	MaxDelayMs  uint32 `json:"maxDelayMs"`
	QPS         uint32 `json:"qps"`
	Burst       uint32 `json:"burst"`
}

// DefaultRateLimiter returns client-go's: a backoff from 5 ms to 1,000 s, and 10 requeues per second in bursts of 100.
func DefaultRateLimiter() RateLimiter {
	return RateLimiter{BaseDelayMs: 5, MaxDelayMs: 1_000_000, QPS: 10, Burst: 100}
}

// Backoff sets the first delay of a key, doubled with each failure, and the longest one.
func (r RateLimiter) Backoff(base, longest time.Duration) RateLimiter {
	r.BaseDelayMs, r.MaxDelayMs = clamp(base.Milliseconds()), clamp(longest.Milliseconds())
	return r
}

// Bucket sets the requeues per second of all keys together, and the size of a burst.
func (r RateLimiter) Bucket(qps, burst uint32) RateLimiter {
	r.QPS, r.Burst = qps, burst
	return r
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
