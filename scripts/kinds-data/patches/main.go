// Command patches prints random strategic merge patches of Pods with the results of the real library, for
// apiserver/tests/kinds_patches.zst: a JSON array of [original, patch, result or null, error].
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type object = map[string]any

// generator makes objects and patches from a seed.
type generator struct{ *rand.Rand }

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "patches:", err)
		os.Exit(1)
	}
	g := generator{rand.New(rand.NewSource(1))}
	cases := []any{}
	for range count {
		original := g.pod(false)
		patch := g.pod(true)
		before, after := clone(original), clone(patch)
		result, err := strategicpatch.StrategicMergeMapPatch(exact(clone(original)).(object), clone(patch), core.Pod{})
		if err != nil {
			cases = append(cases, []any{before, after, nil, err.Error()})
		} else {
			cases = append(cases, []any{before, after, result, ""})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(cases); err != nil {
		fmt.Fprintln(os.Stderr, "patches:", err)
		os.Exit(1)
	}
}

func clone(value object) object {
	text, _ := json.Marshal(value)
	var copied object
	_ = utiljson.Unmarshal(text, &copied)
	return copied
}

// exact returns a copy whose lists have no room to grow, as those of the API server: what the library appends to a list
// may otherwise become visible in another one.
func exact(value any) any {
	switch value := value.(type) {
	case object:
		for key, item := range value {
			value[key] = exact(item)
		}
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = exact(item)
		}
		return items
	}
	return value
}

func (g generator) pod(patch bool) object {
	pod := object{}
	metadata, spec := object{}, object{}
	g.maybe(func() { metadata["labels"] = g.texts(patch) })
	g.maybe(func() { g.scalars(metadata, "finalizers", patch) })
	g.maybe(func() { g.list(spec, "containers", "name", patch, g.container) })
	g.maybe(func() { g.list(spec, "volumes", "name", patch, g.volume) })
	g.maybe(func() { spec["nodeSelector"] = g.texts(patch) })
	g.maybe(func() { spec["tolerations"] = []any{object{"key": g.name()}} })
	g.maybe(func() { spec["securityContext"] = g.directive(object{"runAsUser": g.Intn(3)}, patch) })
	if patch && g.Intn(12) == 0 {
		spec["nodeName"] = nil
	} else {
		g.maybe(func() { spec["nodeName"] = g.name() })
	}
	pod["metadata"] = g.directive(metadata, patch && g.Intn(4) == 0)
	pod["spec"] = g.directive(spec, patch && g.Intn(4) == 0)
	return pod
}

func (g generator) maybe(do func()) {
	if g.Intn(3) > 0 {
		do()
	}
}

func (g generator) name() string { return string(rune('a' + g.Intn(4))) }

// directive adds a directive to some objects of a patch.
func (g generator) directive(value object, patch bool) object {
	if patch && g.Intn(6) == 0 {
		value["$patch"] = []string{"replace", "delete", "replace", "bad"}[g.Intn(4)]
	}
	return value
}

func (g generator) texts(patch bool) object {
	value := object{}
	for range g.Intn(4) {
		value[g.name()] = strconv.Itoa(g.Intn(3))
	}
	if patch && g.Intn(3) == 0 {
		value[g.name()] = nil
	}
	return g.directive(value, patch)
}

// scalars sets a list that is merged as a set, with its directives.
func (g generator) scalars(owner object, field string, patch bool) {
	list := func() []any {
		seen, items := map[string]bool{}, []any{}
		for range g.Intn(4) {
			if name := g.name(); !seen[name] {
				seen[name] = true
				items = append(items, name)
			}
		}
		return items
	}
	owner[field] = list()
	if patch && g.Intn(3) == 0 {
		// The order in which the library looks at both is random, so they have nothing in common.
		deleted := []any{}
		for _, item := range list() {
			if !slices.Contains(owner[field].([]any), item) {
				deleted = append(deleted, item)
			}
		}
		owner["$deleteFromPrimitiveList/"+field] = deleted
	}
	if patch && g.Intn(3) == 0 {
		owner["$setElementOrder/"+field] = append(list(), owner[field].([]any)...)
	}
}

// list sets a list of objects that is merged by a key, with its directives.
func (g generator) list(owner object, field, key string, patch bool, item func(bool) object) {
	seen, items, order := map[any]bool{}, []any{}, []any{}
	for range g.Intn(4) {
		value := item(patch)
		if seen[value[key]] {
			continue
		}
		seen[value[key]] = true
		if patch && g.Intn(5) == 0 {
			value = object{key: value[key], "$patch": "delete"}
		} else {
			order = append(order, object{key: value[key]})
		}
		if patch && g.Intn(40) == 0 {
			delete(value, key)
		}
		items = append(items, value)
	}
	if patch && g.Intn(8) == 0 {
		items = append(items, object{"$patch": "replace"})
	}
	owner[field] = items
	if patch && g.Intn(3) == 0 {
		if g.Intn(2) == 0 {
			order = append(order, object{key: item(false)[key]})
		}
		owner["$setElementOrder/"+field] = order
	}
}

func (g generator) container(patch bool) object {
	value := object{"name": g.name()}
	g.maybe(func() { value["image"] = g.name() })
	g.maybe(func() { value["command"] = []any{g.name()} })
	g.maybe(func() {
		g.list(value, "ports", "containerPort", patch, func(bool) object {
			return object{"containerPort": 80 + g.Intn(3), "name": g.name()}
		})
	})
	g.maybe(func() {
		g.list(value, "env", "name", patch, func(bool) object { return object{"name": g.name(), "value": g.name()} })
	})
	if patch && g.Intn(6) == 0 {
		value["image"] = nil
	}
	return value
}

// volume makes a volume, whose list has the strategy retainKeys.
func (g generator) volume(patch bool) object {
	value := object{"name": g.name()}
	source := []string{"emptyDir", "hostPath"}[g.Intn(2)]
	value[source] = object{}
	if source == "hostPath" {
		value[source] = object{"path": g.name()}
	}
	if patch && g.Intn(3) == 0 {
		value["$retainKeys"] = []any{"name", []string{"emptyDir", "hostPath"}[g.Intn(2)]}
	}
	return value
}
