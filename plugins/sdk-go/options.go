// The options of reads and writes; the zero value of each does the plain thing.

package operetta

// Read says where a read is served from.
type Read uint8

const (
	// Cached is the host's shared informer, overlaid by this plugin's own writes.
	Cached Read = iota
	// Live is one request to the API server.
	Live
)

// ListOptions say which objects a list returns: by default every object of the kind, whole, from the cache.
type ListOptions struct {
	// Namespace; empty lists all namespaces.
	Namespace string
	// Labels is a label selector in the API server's syntax, e.g. `app=db,tier in (a, b)`.
	Labels string
	// Fields is a field selector. Cached reads know metadata.name and metadata.namespace only.
	Fields string
	// Index is the name of an index that [Plugin.Index] declares; the objects are those with IndexValue in it.
	Index, IndexValue string
	// OwnerUID chooses the objects whose controlling ownerReference has this uid.
	OwnerUID string
	// Limit is the size of a page; 0 is all in one. [List] reads every page all the same.
	Limit uint32
	// Continue is the token of the page before.
	Continue string
	// Live reads from the API server; indexes and owners cannot be asked for then.
	Live bool
	// Projection keeps only these fields, e.g. `.metadata.labels`; apiVersion, kind, name, namespace, uid and
	// resourceVersion come always. Empty keeps the whole object.
	Projection []string
}

// WriteOptions are those of create, update and patch.
type WriteOptions struct {
	// DryRun validates and admits, but stores nothing.
	DryRun bool
	// FieldManager owns the fields written; the plugin's own manager if empty.
	FieldManager string
	// Strict rejects unknown and duplicate fields instead of dropping them.
	Strict bool
}

// Propagation says what becomes of the objects that a deleted one owns.
type Propagation string

const (
	// Background lets them be collected afterwards.
	Background Propagation = "Background"
	// Foreground lets them go first.
	Foreground Propagation = "Foreground"
	// Orphan lets them stay, without an owner.
	Orphan Propagation = "Orphan"
)

// DeleteOptions are those of a deletion. When a precondition does not hold nothing is deleted, and the call fails with a
// conflict.
type DeleteOptions struct {
	// UID is a precondition: only the object with this metadata.uid.
	UID string
	// ResourceVersion is a precondition: only the object at this version.
	ResourceVersion string
	// GracePeriodSeconds is how long the object may take to end; nil leaves it to the object.
	GracePeriodSeconds *uint32
	// Propagation; empty leaves it to the kind's default.
	Propagation Propagation
	// DryRun validates and admits, but deletes nothing.
	DryRun bool
}

// PatchType is a patch's content type; the values are the contract's.
type PatchType uint8

const (
	// Merge is application/merge-patch+json, RFC 7386.
	Merge PatchType = iota
	// JSON is application/json-patch+json, RFC 6902.
	JSON
	// Apply is application/apply-patch+yaml, server-side apply.
	Apply
)

// Patch is a change to an object, or to a subresource of it.
type Patch struct {
	// Type is the content type.
	Type PatchType
	// Body is written by encoding/json.
	Body any
	// Subresource is `status` or `scale`; empty patches the object itself.
	Subresource string
	// Force takes over fields that other managers own; it counts for Apply only.
	Force bool
	// Options are those of the write.
	Options WriteOptions
}

// MergePatch is a JSON merge patch: null removes a field, an array replaces the whole array.
func MergePatch(body any) Patch { return Patch{Type: Merge, Body: body} }

// JSONPatch is a JSON patch: an array of [JSONOperation], or of maps.
func JSONPatch(operations any) Patch { return Patch{Type: JSON, Body: operations} }

// ApplyPatch is a server-side apply: the object, with only the fields that this plugin wants to own.
func ApplyPatch(object any) Patch { return Patch{Type: Apply, Body: object} }

// JSONOperation is one step of a [JSONPatch].
type JSONOperation struct {
	// Op is `add`, `remove`, `replace`, `move`, `copy` or `test`.
	Op string `json:"op"`
	// Path is a JSON pointer, e.g. `/spec/replicas`.
	Path string `json:"path"`
	// From is where `move` and `copy` take from.
	From string `json:"from,omitempty"`
	// Value of `add`, `replace` and `test`.
	Value any `json:"value,omitempty"`
}

func last[T any](options []T) T {
	var zero T
	if len(options) == 0 {
		return zero
	}
	return options[len(options)-1]
}
