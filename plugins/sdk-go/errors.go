// Errors as reconcilers branch on them: the contract's variants, each with the API server's Status.

package operetta

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrorKind is a variant of the contract's `types.error`.
type ErrorKind uint8

// The variants; their values are the contract's.
const (
	// NotFound is 404: the object does not exist, or its namespace, or its kind.
	NotFound ErrorKind = iota
	// AlreadyExists is 409: an object of that name exists.
	AlreadyExists
	// Conflict is 409: the resourceVersion is stale, a precondition does not hold, or another manager owns a field.
	Conflict
	// Invalid is 422: the object was rejected; the causes name the fields.
	Invalid
	// BadRequest is 400, or a request that the host rejects as malformed.
	BadRequest
	// Forbidden is 401 or 403: the plugin's ServiceAccount may not do this.
	Forbidden
	// Expired is 410: a continue token or resourceVersion is too old.
	Expired
	// TooManyRequests is 429.
	TooManyRequests
	// Unavailable is 500, 502, 503, or no connection.
	Unavailable
	// TimedOut is 504, or the host's own deadline on one call.
	TimedOut
	// Other is any other failure, described by the code and the reason.
	Other
)

var errorKinds = [...]string{
	"not-found", "already-exists", "conflict", "invalid", "bad-request", "forbidden", "expired", "too-many-requests",
	"unavailable", "timed-out", "other",
}

// String returns the contract's name of the variant, e.g. `not-found`.
func (k ErrorKind) String() string {
	if int(k) < len(errorKinds) {
		return errorKinds[k]
	}
	return "other"
}

// Cause is a field that the API server rejected, with the reason.
type Cause struct {
	// Reason is metav1.CauseType, e.g. `FieldValueInvalid`.
	Reason string
	// Message is the human-readable reason.
	Message string
	// Field is the field's path, e.g. `spec.replicas`; empty if the cause names none.
	Field string
}

// Status is the API server's metav1.Status of a failed call.
type Status struct {
	// Code is the HTTP status code, e.g. 409.
	Code int
	// Reason is metav1.StatusReason, e.g. `Conflict`; empty if the server gave none.
	Reason string
	// Message is the human-readable message.
	Message string
	// Causes are the causes of metav1.StatusDetails.
	Causes []Cause
	// RetryAfter is the delay before a retry; 0 if the server gave none.
	RetryAfter time.Duration
}

// APIError is the error of a call to the API server.
type APIError struct {
	// Kind is the variant.
	Kind ErrorKind
	// Status is the response of the API server.
	Status Status
}

func (e *APIError) Error() string {
	var text strings.Builder
	text.WriteString(e.Kind.String())
	if e.Status.Message != "" {
		text.WriteString(": " + e.Status.Message)
	}
	return text.String()
}

// NewAPIError returns an error with the code and reason of its kind, for tests.
func NewAPIError(kind ErrorKind, message string) *APIError {
	known := [...]struct {
		code   int
		reason string
	}{
		{404, "NotFound"}, {409, "AlreadyExists"}, {409, "Conflict"}, {422, "Invalid"}, {400, "BadRequest"},
		{403, "Forbidden"}, {410, "Expired"}, {429, "TooManyRequests"}, {503, "ServiceUnavailable"}, {504, "Timeout"},
		{500, ""},
	}[min(kind, Other)]
	return &APIError{Kind: kind, Status: Status{Code: known.code, Reason: known.reason, Message: message}}
}

// ErrorKindOf returns the kind of an error that is or wraps an *[APIError], and reports whether it does.
func ErrorKindOf(err error) (ErrorKind, bool) {
	var api *APIError
	if errors.As(err, &api) {
		return api.Kind, true
	}
	return Other, false
}

func isKind(err error, kind ErrorKind) bool {
	of, ok := ErrorKindOf(err)
	return ok && of == kind
}

// IsNotFound reports whether err is or wraps a [NotFound] error.
func IsNotFound(err error) bool { return isKind(err, NotFound) }

// IsAlreadyExists reports whether err is or wraps an [AlreadyExists] error.
func IsAlreadyExists(err error) bool { return isKind(err, AlreadyExists) }

// IsConflict reports whether err is or wraps a [Conflict] error.
func IsConflict(err error) bool { return isKind(err, Conflict) }

// IsInvalid reports whether err is or wraps an [Invalid] error.
func IsInvalid(err error) bool { return isKind(err, Invalid) }

// IsForbidden reports whether err is or wraps a [Forbidden] error.
func IsForbidden(err error) bool { return isKind(err, Forbidden) }

// IsExpired reports whether err is or wraps an [Expired] error.
func IsExpired(err error) bool { return isKind(err, Expired) }

// IgnoreNotFound returns nil for a [NotFound] error, and err otherwise.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// Terminal wraps an error that is reported and not retried until the object changes. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

// Terminalf is Terminal(fmt.Errorf(format, args...)).
func Terminalf(format string, args ...any) error { return Terminal(fmt.Errorf(format, args...)) }

// IsTerminal reports whether err is or wraps a terminal error.
func IsTerminal(err error) bool {
	var terminal *terminalError
	return errors.As(err, &terminal)
}
