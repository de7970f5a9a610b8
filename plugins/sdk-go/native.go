//go:build !wasip1

package operetta

// logToHost leaves the default logger alone: natively there is no host.
func logToHost() {}
