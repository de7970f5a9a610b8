// Conversion of objects to and from JSON. Objects that are sent always have apiVersion and kind.

package operetta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"operetta.dev/sdk-go/internal/codec"
)

// encode writes the object as JSON, with apiVersion and kind.
func encode(object Object) ([]byte, error) {
	kind := KindOfObject(object)
	text, err := codec.Marshal(object)
	if err != nil {
		return nil, malformed("this %s cannot be written as JSON: %v", kind, err)
	}
	return withType(text, kind)
}

// withType adds apiVersion and kind to an object's text where they are missing.
func withType(text []byte, kind GroupVersionKind) ([]byte, error) {
	hasVersion, hasKind, ok := codec.Has(text, "apiVersion", "kind")
	if !ok {
		var has struct {
			APIVersion *json.RawMessage `json:"apiVersion"`
			Kind       *json.RawMessage `json:"kind"`
		}
		if err := json.Unmarshal(text, &has); err != nil {
			return nil, malformed("this %s is not a JSON object: %v", kind, err)
		}
		hasVersion, hasKind = has.APIVersion != nil, has.Kind != nil
	}
	var missing []byte
	for _, member := range []struct {
		name, value string
		there       bool
	}{{"apiVersion", kind.APIVersion, hasVersion}, {"kind", kind.Kind, hasKind}} {
		if !member.there {
			value, _ := json.Marshal(member.value)
			missing = fmt.Appendf(missing, "%q:%s,", member.name, value)
		}
	}
	if len(missing) == 0 {
		return text, nil
	}
	rest := bytes.TrimLeft(bytes.TrimLeft(text, " \t\r\n")[1:], " \t\r\n")
	if rest[0] == '}' {
		missing = missing[:len(missing)-1]
	}
	return append(append([]byte{'{'}, missing...), rest...), nil
}

// decode reads an object and replaces its previous value. The object keeps the text, which must not change afterwards.
func decode(text []byte, object Object) error {
	kind := KindOfObject(object)
	if value := reflect.ValueOf(object); value.Kind() == reflect.Pointer && !value.IsNil() {
		value.Elem().SetZero()
		if any, ok := object.(*Unstructured); ok && any.read(text) || !ok && codec.Read(text, object) {
			return nil
		}
		value.Elem().SetZero()
	}
	if err := json.Unmarshal(text, object); err != nil {
		return malformed("%s %s does not fit the type %T: %v", kind, keyOf(text), object, err)
	}
	return nil
}

// keyOf returns the key of an object, as far as the text has it.
func keyOf(text []byte) Key {
	var object struct {
		Metadata struct{ Namespace, Name string }
	}
	_ = json.Unmarshal(text, &object)
	return Key{Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}
}

// decodeMap reads a JSON object; numbers stay as they are written. The map keeps the text.
func decodeMap(text []byte) (map[string]any, error) {
	if members, ok := codec.ReadMap(text); ok {
		return members, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		return nil, err
	}
	return members, nil
}

// malformed returns the error of an object that cannot be sent to the API server.
func malformed(format string, args ...any) error {
	return NewAPIError(BadRequest, fmt.Sprintf(format, args...))
}

// same reports whether two values are equal to the API server: an absent field, null, [] and {} are equal
// (apimachinery's equality.Semantic).
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && covers(a, b) && covers(b, a) || !ok && isEmpty(a) && isEmpty(b)
	case []any:
		if b, ok := b.([]any); ok {
			if len(a) != len(b) {
				return false
			}
			for i := range a {
				if !same(a[i], b[i]) {
					return false
				}
			}
			return true
		}
	default:
		if b, ok := b.(map[string]any); ok {
			return a == nil && isEmpty(b)
		}
		if _, ok := b.([]any); !ok {
			return a == b
		}
	}
	return isEmpty(a) && isEmpty(b)
}

func covers(a, b map[string]any) bool {
	for name, value := range a {
		other, found := b[name]
		if found && !same(value, other) || !found && !isEmpty(value) {
			return false
		}
	}
	return true
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return len(value) == 0
	case map[string]any:
		for _, member := range value {
			if !isEmpty(member) {
				return false
			}
		}
		return true
	}
	return false
}

// carryOver applies the changes between before and after to target. It preserves the other fields of target, which the
// type of before and after does not have. Lists are replaced as a whole.
func carryOver(target, before, after map[string]any) {
	for name := range before {
		if _, found := after[name]; !found {
			delete(target, name)
		}
	}
	for name, value := range after {
		old, found := before[name]
		if found && same(old, value) {
			continue
		}
		inner, isMap := value.(map[string]any)
		oldInner, wasMap := old.(map[string]any)
		targetInner, isTarget := target[name].(map[string]any)
		if isMap && wasMap && isTarget {
			carryOver(targetInner, oldInner, inner)
		} else {
			target[name] = value
		}
	}
}
