// What a reconcile is asked and what it answers.

package operetta

import (
	"math"
	"time"
)

// Request is a key that is to be brought to its desired state. It is never an event: read the object, which may be gone.
type Request struct {
	// Controller is the controller's name.
	Controller string
	// Key is the object's; its kind is the controller's.
	Key Key
	// Retries says how often in a row reconciling this key has failed: 0 the first time.
	Retries uint32
	// ReconcileID is unique for each reconcile, as in logs and traces.
	ReconcileID string
}

// Result is what happens to the key after a reconcile that worked. The zero value is [Done]. With an error beside it the
// result does not count: the key is retried with backoff, unless the error is [Terminal].
type Result struct {
	again bool
	after time.Duration
}

// Done says that nothing more is to do; the retries are forgotten.
func Done() Result { return Result{} }

// Requeue asks for the key again, after the rate limiter's delay.
func Requeue() Result { return Result{again: true} }

// RequeueAfter asks for the key again after a delay, rounded up to a millisecond; the retries are forgotten. An event
// still comes earlier. A delay of 0 or less is one of a millisecond.
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

// afterMillis returns the delay as the contract has it.
func (r Result) afterMillis() uint32 {
	millis := (r.after + time.Millisecond - 1) / time.Millisecond
	return uint32(min(int64(millis), math.MaxUint32))
}
