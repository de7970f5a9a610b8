//go:build !wasip1

package operetta

// logToHost does nothing: a native build has no host.
func logToHost() {}
