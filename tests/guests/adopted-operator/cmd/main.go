// A program in the shape of a kubebuilder project, for the tests of `operetta adopt`: what matters are
// its manifests, and what its code seems to need. It uses the standard library only.
package main

import (
	"fmt"
	"os"

	"example.com/adopted/internal/probe"
)

const settings = "/etc/adopted/settings.yaml"

func main() {
	if _, err := os.ReadFile(settings); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if _, err := os.ReadFile("/var/lib/adopted/state"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	fmt.Println(probe.Status("http://example.com"), os.Args[1:])
}
