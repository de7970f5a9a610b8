package operettatest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"operetta.dev/sdk-go"
)

// patched returns the object after a patch.
func patched(of object, patch operetta.RawPatch) (object, error) {
	of = clone(of)
	switch patch.Type {
	case operetta.Merge:
		body, err := decode(patch.Body)
		if err != nil {
			return nil, err
		}
		merge(of, body)
		return of, nil
	case operetta.JSON:
		return jsonPatched(of, patch.Body)
	}
	return nil, unsupported("server-side apply")
}

// merge applies a merge patch, RFC 7386.
func merge(to, patch object) {
	for name, value := range patch {
		inner, isMap := value.(object)
		switch {
		case value == nil:
			delete(to, name)
		case isMap:
			if member(to, name) == nil {
				to[name] = object{}
			}
			merge(member(to, name), inner)
		default:
			to[name] = value
		}
	}
}

type operation struct {
	Op, Path, From string
	Value          *json.RawMessage
}

// jsonPatched applies a JSON patch, RFC 6902.
func jsonPatched(of object, body []byte) (object, error) {
	var operations []operation
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, badRequest("failed to parse the JSON patch: %v", err)
	}
	var root any = of
	for _, step := range operations {
		var err error
		if root, err = step.apply(root); err != nil {
			return nil, err
		}
	}
	patched, ok := root.(object)
	if !ok {
		return nil, badRequest("the result of the JSON patch is not an object")
	}
	return patched, nil
}

func (o operation) failed(why string) error {
	return operetta.NewAPIError(operetta.Invalid, "the JSON patch's "+o.Op+" at "+o.Path+": "+why)
}

func (o operation) apply(root any) (any, error) {
	var value any
	switch o.Op {
	case "add", "replace", "test":
		if o.Value != nil {
			wrapped, err := decode(slices.Concat([]byte(`{"v":`), *o.Value, []byte(`}`)))
			if err != nil {
				return nil, err
			}
			value = wrapped["v"]
		}
	case "move", "copy":
		found, ok := at(root, o.From)
		if !ok {
			return nil, o.failed("nothing is at " + o.From)
		}
		value = clone(found)
	}
	there, found := at(root, o.Path)
	switch o.Op {
	case "test":
		if !found || !equal(there, value) {
			return nil, o.failed("the value is another")
		}
		return root, nil
	case "remove", "replace":
		if !found {
			return nil, o.failed("nothing is there")
		}
	case "move":
		root, _ = changed(root, o.From, "remove", nil)
	case "add", "copy":
	default:
		return nil, o.failed("no such operation")
	}
	of, ok := changed(root, o.Path, o.Op, value)
	if !ok {
		return nil, o.failed("the path does not exist")
	}
	return of, nil
}

func pointer(path string) []string {
	if path == "" {
		return nil
	}
	steps := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i])
	}
	return steps
}

func at(of any, path string) (any, bool) {
	for _, step := range pointer(path) {
		switch within := of.(type) {
		case object:
			value, found := within[step]
			if !found {
				return nil, false
			}
			of = value
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(within) {
				return nil, false
			}
			of = within[i]
		default:
			return nil, false
		}
	}
	return of, true
}

// changed returns a tree with the value at a path added, replaced or removed.
func changed(of any, path, op string, value any) (any, bool) {
	return changedAt(of, pointer(path), op, value)
}

func changedAt(of any, steps []string, op string, value any) (any, bool) {
	if len(steps) == 0 {
		return value, op != "remove"
	}
	step, inner := steps[0], len(steps) > 1
	switch within := of.(type) {
	case object:
		if inner {
			next, ok := changedAt(within[step], steps[1:], op, value)
			if ok {
				within[step] = next
			}
			return within, ok
		}
		if op == "remove" {
			delete(within, step)
		} else {
			within[step] = value
		}
		return within, true
	case []any:
		i, err := strconv.Atoi(step)
		if step == "-" {
			i, err = len(within), nil
		}
		if err != nil || i < 0 || i > len(within) || i == len(within) && (inner || op == "remove" || op == "replace") {
			return nil, false
		}
		switch {
		case inner:
			next, ok := changedAt(within[i], steps[1:], op, value)
			if ok {
				within[i] = next
			}
			return within, ok
		case op == "remove":
			return slices.Delete(within, i, i+1), true
		case op == "replace":
			within[i] = value
			return within, true
		}
		return slices.Insert(within, i, value), true
	}
	return nil, false
}
