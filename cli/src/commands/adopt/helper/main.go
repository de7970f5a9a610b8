// Command helper does for `operetta adopt` what only Go's libraries can: it renders kustomizations and
// Helm charts, and reads the syntax of an operator's packages.
//
// It reads one request as JSON from stdin and writes the answer as JSON to stdout. On an error it
// writes one message to stderr and exits with 1.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/yaml"
)

// Request has one of its fields.
type Request struct {
	Render *Render `json:"render"`
	Needs  *Needs  `json:"needs"`
	// Write asks for these objects as YAML that kubectl reads as the same objects: with quotes around
	// `on` and `1e3`, which are no texts in YAML 1.1.
	Write []json.RawMessage `json:"write"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var request Request
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return fmt.Errorf("failed to read the request: %w", err)
	}

	var answer any
	var err error
	switch {
	case request.Render != nil:
		answer, err = request.Render.objects()
	case request.Needs != nil:
		answer, err = request.Needs.uses()
	case request.Write != nil:
		answer, err = written(request.Write)
	default:
		err = fmt.Errorf("the request has none of render, needs and write")
	}
	if err != nil {
		return err
	}

	return json.NewEncoder(out).Encode(answer)
}

// written returns objects as YAML.
func written(objects []json.RawMessage) ([]string, error) {
	texts := []string{}
	for _, object := range objects {
		text, err := yaml.JSONToYAML(object)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}
