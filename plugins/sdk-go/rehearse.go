// What a plugin does before its snapshot is taken.

package operetta

import (
	"encoding/json"
	"reflect"
)

// rehearse encodes and decodes an empty object of each type. encoding/json, which a reconciler may call, and the codec examine a
// type when they meet it first, which takes milliseconds for one with a Pod's template. `operetta build` takes its snapshot
// afterwards, so that no reconcile has to do it.
func rehearse(types map[reflect.Type]bool) {
	for pointer := range types {
		object := reflect.New(pointer.Elem()).Interface().(Object)
		if text, err := json.Marshal(object); err == nil {
			_ = decode(text, object)
		}
	}
}

// types returns the types of RegisterKind and those of the plugin's sources.
func (p *Plugin) types() map[reflect.Type]bool {
	types := map[reflect.Type]bool{}
	kinds.Range(func(pointer, _ any) bool { types[pointer.(reflect.Type)] = true; return true })
	for _, controller := range p.controllers {
		sources := append([]Source{controller.source}, controller.owns...)
		for _, watch := range controller.watches {
			sources = append(sources, watch.Source)
		}
		for _, source := range sources {
			if source.object != nil {
				types[source.object] = true
			}
		}
	}
	return types
}
