// Conversion of panics to errors.

package operetta

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// PanicError is the error of a reconcile that panicked. The key is retried.
type PanicError struct {
	// Value is the value of the panic.
	Value any
	// At is the function and the line, e.g. `main.sing (plugin.go:12)`; empty if unknown.
	At string
	// Stack has one line for each function, the panicking one first.
	Stack string
}

func (e *PanicError) Error() string {
	if e.At == "" {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return fmt.Sprintf("panic: %v at %s", e.Value, e.At)
}

// Unwrap returns the value of the panic, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// RecoverPanic converts a panic to a *[PanicError] and logs its stack. It must be deferred.
func RecoverPanic(api API, err *error) {
	value := recover()
	if value == nil {
		return
	}
	failure := &PanicError{Value: value}
	var stack []string
	for _, frame := range panicFrames() {
		stack = append(stack, fmt.Sprintf("%s (%s:%d)", frame.Function, path.Base(frame.File), frame.Line))
	}
	if len(stack) > 0 {
		failure.At, failure.Stack = stack[0], strings.Join(stack, "\n")
	}
	api.Log(LevelError, failure.Error(), []LogField{{Name: "stack", Value: failure.Stack}})
	*err = failure
}

// panicFrames returns the stack above the panic, without the runtime's own functions.
func panicFrames() []runtime.Frame {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	var kept []runtime.Frame
	panicking := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicking, kept = true, nil
		case panicking && !strings.HasPrefix(frame.Function, "runtime."):
			kept = append(kept, frame)
		}
		if !more {
			return kept
		}
	}
}
