package operettatest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"operetta.dev/sdk-go"
)

// object is an object as JSON; numbers are json.Number.
type object = map[string]any

func decode(text []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var of object
	if err := decoder.Decode(&of); err != nil {
		return nil, badRequest("not a JSON object: %v", err)
	}
	return of, nil
}

func encode(of object) []byte {
	text, err := json.Marshal(of)
	if err != nil {
		panic(fmt.Sprintf("an object that came from JSON cannot be written as JSON: %v", err))
	}
	return text
}

func clone[T any](value T) T {
	var of any = value
	switch of := of.(type) {
	case object:
		copied := make(object, len(of))
		for name, value := range of {
			copied[name] = clone(value)
		}
		return any(copied).(T)
	case []any:
		copied := make([]any, len(of))
		for i, value := range of {
			copied[i] = clone(value)
		}
		return any(copied).(T)
	}
	return value
}

// member returns the map at a path; nil if there is none.
func member(of object, path ...string) object {
	for _, step := range path {
		of, _ = of[step].(object)
	}
	return of
}

// metadata returns the object's metadata, and adds it if it is missing.
func metadata(of object) object {
	if member(of, "metadata") == nil {
		of["metadata"] = object{}
	}
	return member(of, "metadata")
}

func asString(of object, name string) string {
	text, _ := of[name].(string)
	return text
}

// scalar returns the string, number or boolean at a path as text.
func scalar(of object, path []string) (string, bool) {
	switch value := member(of, path[:len(path)-1]...)[path[len(path)-1]].(type) {
	case string:
		return value, true
	case json.Number, bool:
		return fmt.Sprint(value), true
	}
	return "", false
}

func controllerUID(of object) (string, bool) {
	owner, found := controlling(of)
	return asString(owner, "uid"), found
}

// controlling returns the controlling owner reference.
func controlling(of object) (object, bool) {
	owners, _ := member(of, "metadata")["ownerReferences"].([]any)
	for _, owner := range owners {
		if owner, _ := owner.(object); owner["controller"] == true {
			return owner, true
		}
	}
	return nil, false
}

// indexed returns the function from an object to its value in an index.
func indexed(index operetta.IndexManifest) func(object) (string, bool) {
	switch {
	case index.Label != "":
		return func(of object) (string, bool) {
			value, found := member(of, "metadata", "labels")[index.Label].(string)
			return value, found
		}
	case index.Controller != nil:
		group := operetta.GVK(index.Controller.APIVersion, "").Group()
		return func(of object) (string, bool) {
			owner, found := controlling(of)
			found = found && operetta.GVK(asString(owner, "apiVersion"), "").Group() == group
			return asString(owner, "name"), found && asString(owner, "kind") == index.Controller.Kind
		}
	}
	path := strings.Split(strings.TrimPrefix(index.Path, "."), ".")
	return func(of object) (string, bool) { return scalar(of, path) }
}

func finalizers(of object) []any {
	all, _ := member(of, "metadata")["finalizers"].([]any)
	return all
}

// projected returns the object with the fields of a projection and those that every projection keeps.
func projected(of object, projection []string) object {
	if len(projection) == 0 {
		return of
	}
	kept := object{}
	always := []string{".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".metadata.uid", ".metadata.resourceVersion"}
	for _, path := range slices.Concat(always, projection) {
		steps := strings.Split(strings.TrimPrefix(path, "."), ".")
		parents, leaf := steps[:len(steps)-1], steps[len(steps)-1]
		value, found := member(of, parents...)[leaf]
		if !found {
			continue
		}
		to := kept
		for _, step := range parents {
			if member(to, step) == nil {
				to[step] = object{}
			}
			to = member(to, step)
		}
		to[leaf] = value
	}
	return kept
}

// requirement is a requirement of a selector: the label's value must be, or must not be, among the values.
type requirement struct {
	name   string
	values []string
	// any accepts every value.
	any bool
	not bool
}

type selector []requirement

func (s selector) matches(labels object) bool {
	for _, r := range s {
		value, found := labels[r.name].(string)
		if (found && (r.any || slices.Contains(r.values, value))) == r.not {
			return false
		}
	}
	return true
}

// parseSelector reads a label selector in the API server's syntax.
func parseSelector(text string) (selector, error) {
	var all selector
	for rest := strings.TrimSpace(text); rest != ""; {
		var term string
		end := strings.IndexByte(rest, ',')
		if open := strings.IndexByte(rest, '('); open >= 0 && end > open {
			closing := strings.IndexByte(rest, ')')
			if closing < 0 {
				return nil, badRequest("the label selector %q has no closing parenthesis", text)
			}
			if end = strings.IndexByte(rest[closing:], ','); end >= 0 {
				end += closing
			}
		}
		if term, rest = rest, ""; end >= 0 {
			term, rest = term[:end], strings.TrimSpace(term[end+1:])
		}
		r, err := parseRequirement(strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func parseRequirement(term string) (requirement, error) {
	if head, list, found := strings.Cut(term, "("); found {
		words := strings.Fields(head)
		if len(words) == 2 && (words[1] == "in" || words[1] == "notin") && strings.HasSuffix(list, ")") {
			values := strings.Split(strings.TrimSuffix(list, ")"), ",")
			for i := range values {
				values[i] = strings.TrimSpace(values[i])
			}
			return requirement{name: words[0], values: values, not: words[1] == "notin"}, nil
		}
		return requirement{}, badRequest("failed to parse label selector %q", term)
	}
	for _, operator := range []string{"!=", "==", "="} {
		if name, value, found := strings.Cut(term, operator); found {
			return requirement{name: strings.TrimSpace(name), values: []string{strings.TrimSpace(value)}, not: operator == "!="}, nil
		}
	}
	name, not := strings.CutPrefix(term, "!")
	if name == "" || strings.ContainsAny(name, " \t") {
		return requirement{}, badRequest("failed to parse label selector %q", term)
	}
	return requirement{name: name, any: true, not: not}, nil
}

// parseFields parses a field selector with the fields that cached reads support.
func parseFields(text string) (selector, error) {
	var all selector
	for term := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(term) == "" {
			continue
		}
		r, err := parseRequirement(strings.TrimSpace(term))
		if err != nil || r.any {
			return nil, badRequest("failed to parse field selector %q", term)
		}
		if r.name != "metadata.name" && r.name != "metadata.namespace" {
			return nil, badRequest("%q is not a field that cached reads know: metadata.name and metadata.namespace are", r.name)
		}
		all = append(all, r)
	}
	return all, nil
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

func isBuiltIn(kind operetta.GroupVersionKind) bool {
	return slices.Contains([]string{
		"", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io",
		"coordination.k8s.io", "events.k8s.io", "discovery.k8s.io",
	}, kind.Group())
}
