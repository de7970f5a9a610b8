// Watches with a function from an object to the keys that its events enqueue.

package operetta

import (
	"fmt"
	"slices"
)

// Change is the kind of change of a watched object; the values are the contract's.
type Change uint8

const (
	// Added is the change of an object that is new to the controller; it may have existed before.
	Added Change = iota
	// Modified is the change of an object, or its repetition by a resync.
	Modified
	// Deleted is the deletion of an object.
	Deleted
)

// MapEvent is the change of a watched object since its last mapping, for the functions of [ToKeys]. It may combine several
// changes.
type MapEvent struct {
	// Controller is the name of the controller that watches the object.
	Controller string
	// Kind is the object's kind.
	Kind GroupVersionKind
	// Key is the object's key.
	Key Key
	// Change is the kind of change.
	Change Change
	// Object is the object as JSON: its current state, or its last one if it is deleted.
	Object []byte
	// Old is the object at its last mapping, if it has changed since; nil otherwise.
	Old []byte
}

// customMapping is the function of a [Mapping].
type customMapping struct {
	// kind is the kind of the function's argument; empty for [Unstructured].
	kind GroupVersionKind
	keys func(object []byte) ([]Key, error)
}

// ToKeys enqueues the keys that a function returns, at most 1,000 (controller-runtime's EnqueueRequestsFromMapFunc):
//
//	controller.Watches(operetta.Of[Node](), operetta.ToKeys(func(node *Node) []operetta.Key { … }))
//
// The function is called with the object and, if that has changed, with its old state as well: the keys of both are
// enqueued. For a deleted object it is called with the last state. It cannot read other objects. A panic is an error: the
// host retries the mapping.
func ToKeys[T any, P Pointer[T]](keys func(P) []Key) Mapping {
	return Mapping{Type: "Custom", custom: &customMapping{kind: KindOf[T, P](), keys: func(text []byte) ([]Key, error) {
		object := P(new(T))
		if err := decode(text, object); err != nil {
			return nil, err
		}
		return keys(object), nil
	}}}
}

// MapEvent returns the keys of the new and of the old state, without repeats, of all watches of the kind. A panic becomes
// a *[PanicError].
func (p *Plugin) MapEvent(api API, event MapEvent) (keys []Key, err error) {
	defer RecoverPanic(api, &err)
	i := slices.IndexFunc(p.controllers, func(controller *Controller) bool { return controller.name == event.Controller })
	if i < 0 {
		return nil, fmt.Errorf("the plugin has no controller %q", event.Controller)
	}
	seen := map[Key]bool{}
	for _, watch := range p.controllers[i].watches {
		if watch.Map.custom == nil || watch.Source.kind() != event.Kind {
			continue
		}
		for _, state := range [][]byte{event.Object, event.Old} {
			if state == nil {
				continue
			}
			found, err := watch.Map.custom.keys(state)
			if err != nil {
				return nil, err
			}
			for _, key := range found {
				if !seen[key] {
					seen[key] = true
					keys = append(keys, key)
				}
			}
		}
	}
	return keys, nil
}

// checkMappings returns an error if a watch's function takes another kind than the watch's.
func (c *Controller) checkMappings() error {
	for _, watch := range c.watches {
		custom := watch.Map.custom
		if custom == nil || custom.kind == (GroupVersionKind{}) || custom.kind == watch.Source.kind() {
			continue
		}
		return fmt.Errorf("controller %q watches %s, but its function maps %s", c.name, watch.Source.kind(), custom.kind)
	}
	return nil
}

func (s Source) kind() GroupVersionKind { return GVK(s.APIVersion, s.Kind) }
