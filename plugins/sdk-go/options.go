// The options of reads and writes. The zero value of each type selects the defaults.

package operetta

// Read is the source of a read.
type Read uint8

const (
	// Cached reads from the host's shared informer, which includes the plugin's own writes.
	Cached Read = iota
	// Live sends a request to the API server.
	Live
)

// ListOptions are the options of a list. By default it returns every object of the kind, with all fields, from the
// cache.
type ListOptions struct {
	// Namespace is the namespace; empty lists all namespaces.
	Namespace string
	// Labels is a label selector in the API server's syntax, e.g. `app=db,tier in (a, b)`.
	Labels string
	// Fields is a field selector. Cached reads support only metadata.name and metadata.namespace.
	Fields string
	// Index is the name of an index that [Plugin.Index], [Plugin.IndexByLabel] or [Plugin.IndexByController] declares. The
	// list returns the objects with IndexValue in it.
	Index, IndexValue string
	// OwnerUID selects the objects whose controlling ownerReference has this uid.
	OwnerUID string
	// Limit is the maximum number of objects in a page; 0 is no limit. [List] reads every page regardless.
	Limit uint32
	// Continue is the token of the previous page.
	Continue string
	// Live reads from the API server. It excludes Index and OwnerUID.
	Live bool
	// Projection keeps only these fields, e.g. `.metadata.labels`; apiVersion, kind, name, namespace, uid and
	// resourceVersion are always returned. Empty returns the whole object.
	Projection []string
}

// WriteOptions are the options of create, update and patch.
type WriteOptions struct {
	// DryRun validates and admits the object without storing it.
	DryRun bool
	// FieldManager owns the written fields; empty is the plugin's own manager.
	FieldManager string
	// Strict rejects unknown and duplicate fields instead of dropping them.
	Strict bool
}

// Propagation is the treatment of the objects that a deleted object owns.
type Propagation string

const (
	// Background deletes them afterwards.
	Background Propagation = "Background"
	// Foreground deletes them first.
	Foreground Propagation = "Foreground"
	// Orphan keeps them and removes their owner reference.
	Orphan Propagation = "Orphan"
)

// DeleteOptions are the options of a deletion. If a precondition does not hold, nothing is deleted and the call fails
// with a conflict.
type DeleteOptions struct {
	// UID is a precondition: only the object with this metadata.uid.
	UID string
	// ResourceVersion is a precondition: only the object at this version.
	ResourceVersion string
	// GracePeriodSeconds is the grace period; nil is that of the object.
	GracePeriodSeconds *uint32
	// Propagation is the treatment of dependents; empty is the default of the kind.
	Propagation Propagation
	// DryRun validates and admits the deletion without deleting.
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
	// Body is the patch; encoding/json writes it.
	Body any
	// Subresource is `status` or `scale`; empty patches the object itself.
	Subresource string
	// Force takes over fields that other managers own. It applies to Apply only.
	Force bool
	// Options are the options of the write.
	Options WriteOptions
}

// MergePatch is a JSON merge patch: null removes a field, an array replaces the whole array.
func MergePatch(body any) Patch { return Patch{Type: Merge, Body: body} }

// JSONPatch is a JSON patch: an array of [JSONOperation], or of maps.
func JSONPatch(operations any) Patch { return Patch{Type: JSON, Body: operations} }

// ApplyPatch is a server-side apply: the object with the fields that this plugin owns.
func ApplyPatch(object any) Patch { return Patch{Type: Apply, Body: object} }

// JSONOperation is one step of a [JSONPatch].
type JSONOperation struct {
	// Op is `add`, `remove`, `replace`, `move`, `copy` or `test`.
	Op string `json:"op"`
	// Path is a JSON pointer, e.g. `/spec/replicas`.
	Path string `json:"path"`
	// From is the source path of `move` and `copy`.
	From string `json:"from,omitempty"`
	// Value is the value of `add`, `replace` and `test`.
	Value any `json:"value,omitempty"`
}

func last[T any](options []T) T {
	var zero T
	if len(options) == 0 {
		return zero
	}
	return options[len(options)-1]
}
