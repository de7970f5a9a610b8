// The contract's imports, with objects as JSON. The host implements them in a plugin, package operettatest in a test.

package operetta

import "time"

// Page is one page of a list, with objects as JSON.
type Page struct {
	// Items are the objects; cached reads are ordered by namespace, then name.
	Items [][]byte
	// ResourceVersion is the resourceVersion of the collection.
	ResourceVersion string
	// Continue is for [ListOptions.Continue]; empty on the last page.
	Continue string
}

// RawPatch is a [Patch] with its body as JSON.
type RawPatch struct {
	Type        PatchType
	Body        []byte
	Subresource string
	Force       bool
	Options     WriteOptions
}

// RawRequest is an HTTP request to the API server.
type RawRequest struct {
	// Method is GET, POST, PUT, PATCH or DELETE.
	Method string
	// Path is the path without a query, e.g. `/apis/apps/v1/namespaces/prod/deployments/web`.
	Path string
	// Query is the percent-encoded query without `?`.
	Query string
	// ContentType is the type of the body; empty is `application/json`.
	ContentType string
	// Accept is a variant of JSON; empty is `application/json`.
	Accept string
	// Body is the body; nil for none.
	Body []byte
	// Cached allows the host to answer a GET from its shared informer.
	Cached bool
}

// RawResponse is the response to a [RawRequest].
type RawResponse struct {
	// Status is the HTTP status code.
	Status int
	// ContentType is the type of the body.
	ContentType string
	// RetryAfter is the Retry-After header; 0 if there is none.
	RetryAfter time.Duration
	// Body is the body.
	Body []byte
}

// EventType is an Event's type; the values are the contract's.
type EventType uint8

const (
	// Normal informs.
	Normal EventType = iota
	// Warning needs attention.
	Warning
)

func (t EventType) String() string {
	if t == Warning {
		return "Warning"
	}
	return "Normal"
}

// Event is an Event about an object, as `kubectl describe` shows it.
type Event struct {
	// Regarding, Key and UID identify the object. Without a uid only `kubectl get events` shows the Event.
	Regarding GroupVersionKind
	Key       Key
	UID       string
	// Type is Normal or Warning.
	Type EventType
	// Reason is a short CamelCase word, e.g. `Synced`.
	Reason string
	// Action is the action taken, e.g. `Update`; may be empty.
	Action string
	// Note is the human-readable message, truncated to 1,024 bytes.
	Note string
}

// LogLevel is the level of a log line; the values are the contract's.
type LogLevel uint8

// From the most to the least important.
const (
	LevelError LogLevel = iota
	LevelWarn
	LevelInfo
	LevelDebug
	LevelTrace
)

func (l LogLevel) String() string {
	return [...]string{"error", "warn", "info", "debug", "trace"}[min(l, LevelTrace)]
}

// LogField is a field of a log line.
type LogField struct{ Name, Value string }

// API has the imports of the contract, with objects as JSON. Its methods return errors of type *[APIError]. The texts that they
// return do not change afterwards: objects that are read from them share their memory.
type API interface {
	Get(kind GroupVersionKind, key Key, read Read) ([]byte, error)
	List(kind GroupVersionKind, options ListOptions) (Page, error)
	Create(kind GroupVersionKind, namespace string, object []byte, options WriteOptions) ([]byte, error)
	Update(kind GroupVersionKind, key Key, object []byte, options WriteOptions) ([]byte, error)
	UpdateStatus(kind GroupVersionKind, key Key, object []byte, options WriteOptions) ([]byte, error)
	Patch(kind GroupVersionKind, key Key, patch RawPatch) ([]byte, error)
	Delete(kind GroupVersionKind, key Key, options DeleteOptions) error
	Raw(request RawRequest) RawResponse
	TakeWarnings() []string
	Emit(event Event)
	LogEnabled(level LogLevel) bool
	Log(level LogLevel, message string, fields []LogField)
	Config() []byte
}
