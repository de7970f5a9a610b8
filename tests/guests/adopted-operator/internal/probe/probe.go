// Package probe asks a server and a program.
package probe

import (
	"net/http"
	"os/exec"
)

// Status is the status that a server answers with, or what the program `true` says.
func Status(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		if err := exec.Command("true").Run(); err != nil {
			return err.Error()
		}
		return "nobody"
	}
	defer answer.Body.Close()
	return answer.Status
}
