// The exports of a plugin.

package operetta

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

var (
	// answer is the return area of exports, and answerText the text that it points to.
	answer     [4]uint32
	answerText []byte
)

var errNothingServed = errors.New("nothing is served: call operetta.Serve from func init of package main")

func answerWith(text []byte) (uint32, uint32) {
	answerText = text
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(text)))), uint32(len(text))
}

// enter begins an export. Until it ends, memory that is allocated outside imports belongs to the WASI adapter.
func enter() func() {
	inGuest = true
	return func() { inGuest = false }
}

//go:wasmexport operetta:controller/reconciler@0.1.0#describe
func exportDescribe() unsafe.Pointer {
	defer enter()()
	prepareArena()
	text, err := describe()
	if err != nil {
		// describe has no error in the contract: the host reports the last line of stderr.
		fmt.Fprintf(os.Stderr, "the plugin cannot be described: %v\n", err)
		os.Exit(1)
	}
	answer[0], answer[1] = answerWith(text)
	return unsafe.Pointer(&answer)
}

func describe() (text []byte, err error) {
	defer RecoverPanic(host{}, &err)
	if served == nil {
		return nil, errNothingServed
	}
	return served().Describe()
}

//go:wasmexport operetta:controller/reconciler@0.1.0#reconcile
func exportReconcile(
	controller unsafe.Pointer, controllerLen, hasNamespace uint32, namespace unsafe.Pointer, namespaceLen uint32,
	name unsafe.Pointer, nameLen, retries uint32, id unsafe.Pointer, idLen uint32,
) unsafe.Pointer {
	defer enter()()
	text := func(at unsafe.Pointer, length uint32) string {
		return string(unsafe.Slice((*byte)(at), length))
	}
	request := Request{
		Controller: text(controller, controllerLen), Key: Key{Name: text(name, nameLen)},
		Retries: retries, ReconcileID: text(id, idLen),
	}
	if hasNamespace != 0 {
		request.Key.Namespace = text(namespace, namespaceLen)
	}
	resetArena()

	result, err := reconcile(request)
	switch {
	case err != nil:
		at, length := answerWith([]byte(err.Error()))
		answer = [4]uint32{1, flag(IsTerminal(err)), at, length}
	case result.after > 0:
		answer = [4]uint32{0, 2, result.afterMillis(), 0}
	default:
		answer = [4]uint32{0, flag(result.again), 0, 0}
	}
	return unsafe.Pointer(&answer)
}

func reconcile(request Request) (result Result, err error) {
	defer RecoverPanic(host{}, &err)
	if served == nil {
		return Result{}, Terminal(errNothingServed)
	}
	return served().Reconcile(host{}, request)
}

//go:wasmexport operetta:controller/mapper@0.1.0#map-event
func exportMapEvent(event unsafe.Pointer) unsafe.Pointer {
	defer enter()()
	change := lifted{event}.mapEvent()
	resetArena()
	keys, err := mapEvent(change)
	if err != nil {
		at, length := answerWith([]byte(err.Error()))
		answer = [4]uint32{1, at, length, 0}
		return unsafe.Pointer(&answer)
	}
	// It lives until the next call: newLowered keeps it.
	l := newLowered()
	for _, key := range keys {
		l.key(key)
	}
	answer = [4]uint32{0, uint32(uintptr(l.pointer())), uint32(len(keys)), 0}
	return unsafe.Pointer(&answer)
}

func mapEvent(event MapEvent) (keys []Key, err error) {
	defer RecoverPanic(host{}, &err)
	if served == nil {
		return nil, errNothingServed
	}
	return served().MapEvent(host{}, event)
}
