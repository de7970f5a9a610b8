//go:build wasip1

// Added to package os/signal by `operetta build`: signals come from a descriptor of the host. The
// stock loop waits in the runtime, and on wasip1 that is a busy loop. Its functions are renamed to
// stock….

package signal

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// ignored has the signals of Ignore. The runtime keeps them in a table that is empty on wasip1, and
// panics when it is asked.
var ignored [numSig]atomic.Bool

func enableSignal(sig int)       { ignored[sig].Store(false) }
func disableSignal(sig int)      { ignored[sig].Store(false) }
func signalIgnored(sig int) bool { return ignored[sig].Load() }

func ignoreSignal(sig int) {
	ignored[sig].Store(true)
	// A signal that nobody takes would end the program.
	watchSignalLoopOnce.Do(func() { go watchSignalLoop() })
}

// processSignals opens the descriptor of the program's signals: one byte for each. Until then the
// host ends the program where a kernel would.
//
//go:wasmimport operetta_process signals
func processSignals() int32

func processLoop() {
	fd := processSignals()
	if fd < 0 {
		return
	}

	file := os.NewFile(uintptr(fd), "signals")
	var numbers [16]byte
	for {
		n, err := file.Read(numbers[:])
		for _, number := range numbers[:n] {
			deliver(syscall.Signal(number))
		}
		if err != nil {
			return
		}
	}
}

// delivering is held while a signal is being delivered.
var delivering sync.Mutex

// waitUntilIdle is what Stop calls before it takes a channel away. The runtime's function waits for
// the stock loop, which never runs.
func waitUntilIdle() {
	delivering.Lock()
	delivering.Unlock()
}

// deliver passes a signal to the channels that want it, or else does what the kernel does by
// default. A second SIGTERM ends a program that has called stop of NotifyContext, for example.
func deliver(sig syscall.Signal) {
	number := signum(sig)
	if number < 0 || signalIgnored(number) {
		return
	}

	delivering.Lock()
	defer delivering.Unlock()
	handlers.Lock()
	wanted := handlers.ref[number] > 0 || len(handlers.stopping) > 0
	handlers.Unlock()

	switch {
	case wanted:
		process(sig)
	case sig == syscall.SIGHUP, sig == syscall.SIGINT, sig == syscall.SIGQUIT, sig == syscall.SIGTERM:
		os.Exit(128 + number)
	}
}
