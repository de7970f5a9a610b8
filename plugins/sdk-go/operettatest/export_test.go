package operettatest

import "testing"

// ServerAddress returns the address of the test server.
func ServerAddress(t *testing.T) string {
	t.Helper()
	address, err := serverAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
