// The memory that the host writes into: arguments of exports and results of imports.
//
// It is never the Go heap. The host calls cabi_realloc before the Go runtime is up (the WASI adapter's own state) and
// in the middle of imports, where a garbage collection, which reads the clock, would be a call out of a component that
// may not make one. So cabi_realloc bumps a pointer through memory taken from the break, and the result is copied.

package operetta

import "unsafe"

//go:linkname sbrk runtime.sbrk
func sbrk(n uintptr) unsafe.Pointer

const pageSize = 64 << 10

var (
	// early serves allocations before the runtime is up, and others that are never freed.
	early     [4 * pageSize / 8]uint64
	earlyUsed uintptr

	// ready is set once the Go runtime is up.
	ready bool
	// inGuest is set while an export runs, inHost while it waits in an import. What the host allocates in a call of
	// ours, or between calls, is for that call; the rest is the adapter's and stays.
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
