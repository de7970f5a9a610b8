// Objects of kinds that have no Go type.

package operetta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"operetta.dev/sdk-go/internal/codec"
)

// Unstructured is an object of any kind, as a map. Numbers in Fields are json.Number, so that 64-bit integers survive.
type Unstructured struct {
	TypeMeta
	ObjectMeta
	// Fields are the fields except apiVersion, kind and metadata, e.g. "spec".
	Fields map[string]any
}

// NewUnstructured returns an empty object of a kind, to read into or to create.
func NewUnstructured(kind GroupVersionKind, key Key) *Unstructured {
	return &Unstructured{
		TypeMeta:   TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind},
		ObjectMeta: ObjectMeta{Namespace: key.Namespace, Name: key.Name},
	}
}

// GroupVersionKind returns the kind of the object.
func (u *Unstructured) GroupVersionKind() GroupVersionKind {
	return GVK(u.TypeMeta.APIVersion, u.TypeMeta.Kind)
}

// MarshalJSON writes the object in the API server's form.
func (u *Unstructured) MarshalJSON() ([]byte, error) {
	members := maps.Clone(u.Fields)
	if members == nil {
		members = map[string]any{}
	}
	members["apiVersion"], members["kind"], members["metadata"] = u.APIVersion, u.Kind, &u.ObjectMeta
	return codec.Marshal(members)
}

// UnmarshalJSON reads any object.
func (u *Unstructured) UnmarshalJSON(text []byte) error {
	if u.read(bytes.Clone(text)) {
		return nil
	}
	var typed struct {
		TypeMeta
		ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(text, &typed); err != nil {
		return err
	}
	fields, err := decodeMap(text)
	if err != nil {
		return err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	delete(fields, "metadata")
	u.TypeMeta, u.ObjectMeta, u.Fields = typed.TypeMeta, typed.ObjectMeta, fields
	return nil
}

// read reads any object. It returns false if it gives up, and does not change u then. The object keeps the text.
func (u *Unstructured) read(text []byte) bool {
	var typed struct {
		TypeMeta
		ObjectMeta `json:"metadata"`
	}
	fields, ok := codec.ReadObject(text, &typed)
	if ok {
		u.TypeMeta, u.ObjectMeta, u.Fields = typed.TypeMeta, typed.ObjectMeta, fields
	}
	return ok
}

// Get returns the value at a path of fields, e.g. Get("spec", "replicas"), and reports whether there is one; null is
// one.
func (u *Unstructured) Get(path ...string) (any, bool) {
	var value any = u.Fields
	for _, step := range path {
		members, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = members[step]; !ok {
			return nil, false
		}
	}
	return value, true
}

// String returns the string at a path, or the JSON text of a number or boolean; "" for any other value.
func (u *Unstructured) String(path ...string) string {
	value, _ := u.Get(path...)
	switch value := value.(type) {
	case string:
		return value
	case json.Number, bool, int, int32, int64, float64:
		return fmt.Sprint(value)
	}
	return ""
}

// Int64 returns the integer at a path, and reports whether there is one.
func (u *Unstructured) Int64(path ...string) (int64, bool) {
	value, _ := u.Get(path...)
	switch value := value.(type) {
	case json.Number:
		number, err := value.Int64()
		return number, err == nil
	case int:
		return int64(value), true
	case int32:
		return int64(value), true
	case int64:
		return value, true
	}
	return 0, false
}

// Set sets the value at a path and adds missing maps. It returns an error if a step of the path is not a map.
func (u *Unstructured) Set(value any, path ...string) error {
	if len(path) == 0 {
		return fmt.Errorf("set: the path is empty")
	}
	if u.Fields == nil {
		u.Fields = map[string]any{}
	}
	members := u.Fields
	for i, step := range path[:len(path)-1] {
		next, found := members[step]
		if !found || next == nil {
			next = map[string]any{}
			members[step] = next
		}
		inner, ok := next.(map[string]any)
		if !ok {
			return fmt.Errorf("set: %v is a %T, not an object", path[:i+1], next)
		}
		members = inner
	}
	members[path[len(path)-1]] = value
	return nil
}

// Remove removes the field at a path, if it exists.
func (u *Unstructured) Remove(path ...string) {
	if len(path) == 0 {
		return
	}
	parent, _ := u.Get(path[:len(path)-1]...)
	if members, ok := parent.(map[string]any); ok {
		delete(members, path[len(path)-1])
	}
}
