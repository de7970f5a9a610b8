package shared

// Added by `operetta build`: buffers come from Go's heap. The original maps memory of its own to give
// it back at once.

// Mmb is a buffer.
type Mmb []byte

// NewMMB returns a buffer of this size.
func NewMMB(size int64) (Mmb, error) {
	return make(Mmb, size), nil
}

// Delete releases the buffer.
func (m *Mmb) Delete() {
	*m = nil
}
