// The memory that the host writes into: arguments of exports and results of imports.
//
// It is never the Go heap. The host calls cabi_realloc before the Go runtime has started (for the WASI adapter's state)
// and during imports. A garbage collection reads the clock, and a component may not call an import at that time. So
// cabi_realloc is a bump allocator over memory from sbrk, and the result is copied to the Go heap.

package operetta

import "unsafe"

//go:linkname sbrk runtime.sbrk
func sbrk(n uintptr) unsafe.Pointer

const pageSize = 64 << 10

var (
	// early serves allocations before the runtime has started, and others that are never freed.
	early     [4 * pageSize / 8]uint64
	earlyUsed uintptr

	// ready is set once the Go runtime has started.
	ready bool
	// inGuest is set while an export runs, inHost while it waits in an import. Memory that is allocated during an
	// import or between calls belongs to that call. Other memory belongs to the adapter and is never freed.
	inGuest, inHost bool

	// arena is the memory of one call: [base, end), used up to next.
	arenaBase, arenaNext, arenaEnd uintptr
)

func init() { ready = true }

//go:wasmexport cabi_realloc
//go:nosplit
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	var to unsafe.Pointer
	if !ready || inGuest && !inHost {
		to = allocEarly(uintptr(align), uintptr(size))
	} else {
		to = allocCall(uintptr(align), uintptr(size))
	}
	for i := uint32(0); old != nil && i < min(oldSize, size); i++ {
		*(*byte)(unsafe.Add(to, i)) = *(*byte)(unsafe.Add(old, i))
	}
	return to
}

//go:nosplit
func allocEarly(align, size uintptr) unsafe.Pointer {
	at := (earlyUsed + align - 1) &^ (align - 1)
	if at+size <= unsafe.Sizeof(early) {
		earlyUsed = at + size
		return unsafe.Add(unsafe.Pointer(&early), at)
	}
	if ready {
		if got := sbrk(size); got != nil {
			return got
		}
	}
	return outOfMemory()
}

//go:nosplit
func allocCall(align, size uintptr) unsafe.Pointer {
	at := (arenaNext + align - 1) &^ (align - 1)
	if arenaBase == 0 || at+size > arenaEnd {
		wanted := max(size, 2*(arenaEnd-arenaBase), pageSize)
		wanted = (wanted + pageSize - 1) &^ (pageSize - 1)
		got := sbrk(wanted)
		if got == nil {
			return outOfMemory()
		}
		at = uintptr(got)
		arenaBase, arenaEnd = at, at+wanted
	}
	arenaNext = at + size
	return address(uint32(at))
}

// prepareArena makes the arena's first memory part of a snapshot: growing the memory costs each reconcile two system calls.
func prepareArena() {
	allocCall(1, pageSize)
	resetArena()
}

// resetArena frees the memory that the host wrote.
func resetArena() { arenaNext = arenaBase }

// outOfMemory ends the call: there is nothing to return.
//
//go:nosplit
func outOfMemory() unsafe.Pointer {
	var nothing *byte
	*nothing = 0
	return nil
}
