// The request and the result of a reconcile.

package operetta

import (
	"math"
	"time"
)

// Request is a key to reconcile. It carries no event: read the object, which may not exist.
type Request struct {
	// Controller is the controller's name.
	Controller string
	// Key is the key of an object of the controller's kind.
	Key Key
	// Retries is the number of consecutive failures of this key; 0 at first.
	Retries uint32
	// ReconcileID is the unique id of the reconcile, as in logs and traces.
	ReconcileID string
}

// Result is the result of a reconcile. The zero value is [Done]. If the reconcile also returns an error, the result is
// ignored: the key is retried with backoff, unless the error is [Terminal].
type Result struct {
	again bool
	after time.Duration
}

// Done ends the reconcile and resets the retries.
func Done() Result { return Result{} }

// Requeue requeues the key after the rate limiter's delay.
func Requeue() Result { return Result{again: true} }

// RequeueAfter requeues the key after a delay, rounded up to a millisecond, and resets the retries. An event may enqueue
// the key earlier. The minimum is a millisecond.
func RequeueAfter(delay time.Duration) Result {
	return Result{again: true, after: max(delay, time.Millisecond)}
}

func (r Result) String() string {
	switch {
	case r.after > 0:
		return "requeue after " + r.after.String()
	case r.again:
		return "requeue"
	}
	return "done"
}

// afterMillis returns the delay in the unit of the contract.
func (r Result) afterMillis() uint32 {
	millis := (r.after + time.Millisecond - 1) / time.Millisecond
	return uint32(min(int64(millis), math.MaxUint32))
}
