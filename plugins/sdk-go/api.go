// The contract's imports, with objects as JSON: what the host serves in a plugin and package operettatest in tests.

package operetta

import "time"

// Page is one page of a list, with objects as JSON.
type Page struct {
	// Items; cached reads come in the order of namespace, then name.
	Items [][]byte
	// ResourceVersion is the collection's.
	ResourceVersion string
	// Continue is for [ListOptions.Continue]; empty on the last page.
	Continue string
}

// RawPatch is a [Patch] as it is sent.
type RawPatch struct {
	Type        PatchType
	Body        []byte
	Subresource string
	Force       bool
	Options     WriteOptions
}

// RawRequest is a request at the API server as HTTP has it.
type RawRequest struct {
	// Method is GET, POST, PUT, PATCH or DELETE.
	Method string
	// Path without a query, e.g. `/apis/apps/v1/namespaces/prod/deployments/web`.
	Path string
	// Query, percent-encoded, without its `?`.
	Query string
	// ContentType of the body; empty is `application/json`.
	ContentType string
	// Accept: only forms of JSON; empty is `application/json`.
	Accept string
	// Body; nil for none.
	Body []byte
	// Cached says whether a GET may be answered by the host's shared informer.
	Cached bool
}

// RawResponse is what came back.
type RawResponse struct {
	// Status is the HTTP status code.
	Status int
	// ContentType of the body.
	ContentType string
	// RetryAfter is the Retry-After header; 0 when there is none.
	RetryAfter time.Duration
	// Body as it came.
	Body []byte
}

// EventType is an Event's type; the values are the contract's.
type EventType uint8

const (
	// Normal is information.
	Normal EventType = iota
	// Warning needs a person's attention.
	Warning
)

func (t EventType) String() string {
	if t == Warning {
		return "Warning"
	}
	return "Normal"
}

// Event is one that people see in `kubectl describe`.
type Event struct {
	// Regarding, Key and UID say which object it is about. Without a uid it is in `kubectl get events` only.
	Regarding GroupVersionKind
	Key       Key
	UID       string
	// Type is Normal or Warning.
	Type EventType
	// Reason is a short CamelCase word, e.g. `Synced`.
	Reason string
	// Action is what was done, e.g. `Update`; may be empty.
	Action string
	// Note is the message for people; beyond 1,024 bytes it is cut.
	Note string
}

// LogLevel is the host's; the values are the contract's.
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

// LogField is one (name, value) pair of a log line.
type LogField struct{ Name, Value string }

// API is every import of the contract, with objects as JSON. Errors are *[APIError].
type API interface {
	Get(kind GroupVersionKind, key Key, read Read) ([]byte, error)
	List(kind GroupVersionKind, options ListOptions) (Page, error)
	Create(kind GroupVersionKind, namespace string, object []byte, options WriteOptions) ([]byte, error)
	Update(kind GroupVersionKind, key Key, object []byte, options WriteOptions) ([]byte, error)
	UpdateStatus(kind GroupVersionKind, key Key, object []byte, options WriteOptions) ([]byte, error)
	Patch(kind GroupVersionKind, key Key, patch RawPatch) ([]byte, error)
	Delete(kind GroupVersionKind, key Key, options DeleteOptions) error
	Raw(request RawRequest) RawResponse
	Emit(event Event)
	LogEnabled(level LogLevel) bool
	Log(level LogLevel, message string, fields []LogField)
	Config() []byte
}
