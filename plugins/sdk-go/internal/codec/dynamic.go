package codec

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// any reads a value of any type.
func (r *reader) any() (any, bool) {
	switch r.peek() {
	case '"':
		value, ok := r.string()
		return value, ok
	case '{':
		members, ok := r.object()
		return members, ok
	case '[':
		elements, ok := r.array()
		return elements, ok
	case 'n':
		return nil, r.literal("null")
	case 't':
		return true, r.literal("true")
	case 'f':
		return false, r.literal("false")
	}
	return r.anyNumber()
}

// anyNumber reads a number of a value of any type.
func (r *reader) anyNumber() (any, bool) {
	text, integer, isInteger, ok := r.number()
	switch {
	case !ok:
		return nil, false
	case r.numbers == asWritten:
		return json.Number(text), true
	case r.numbers == integers && isInteger:
		return integer, true
	case r.numbers == integers && !strings.ContainsAny(text, ".eE"):
		if integer, err := strconv.ParseInt(text, 10, 64); err == nil {
			return integer, true
		}
	case isInteger:
		return float64(integer), true
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsInf(value, 0)
}

func (r *reader) object() (map[string]any, bool) {
	members := map[string]any{}
	more, ok := r.enter('}')
	for more && ok {
		name, found := r.name()
		if !found {
			return nil, false
		}
		value, read := r.any()
		if !read {
			return nil, false
		}
		members[name] = value
		more, ok = r.next('}')
	}
	return members, ok
}

func (r *reader) array() ([]any, bool) {
	base := len(r.values)
	more, ok := r.enter(']')
	for more && ok {
		value, read := r.any()
		if !read {
			return nil, false
		}
		r.values = append(r.values, value)
		more, ok = r.next(']')
	}
	elements := make([]any, len(r.values)-base)
	copy(elements, r.values[base:])
	r.values = r.values[:base]
	return elements, ok
}

// any writes a value of any type.
func (w *writer) any(value any) bool {
	switch value := value.(type) {
	case nil:
		return w.literal("null")
	case string:
		return w.string(value)
	case map[string]any:
		return w.object(value)
	case []any:
		return w.array(value)
	case float64:
		return w.float(value)
	case bool:
		w.out = strconv.AppendBool(w.out, value)
		return true
	case int:
		w.out = strconv.AppendInt(w.out, int64(value), 10)
		return true
	case int64:
		w.out = strconv.AppendInt(w.out, value, 10)
		return true
	case map[string]string:
		return w.texts(value)
	case []string:
		return w.strings(value)
	case json.Number:
		r := reader{text: string(value)}
		if text, _, _, ok := r.number(); ok && r.at == len(value) {
			return w.literal(text)
		}
	default:
		if pointed := reflect.ValueOf(value); pointed.Kind() == reflect.Pointer {
			target := pointed.UnsafePointer()
			return w.value(planOf(pointed.Type()), unsafe.Pointer(&target))
		}
	}
	return w.opaque(value)
}

func (w *writer) object(members map[string]any) bool {
	if members == nil {
		return w.literal("null")
	}
	if w.depth++; w.depth > maxDepth {
		return false
	}
	base := takeNames(w, members)
	end := len(w.names)
	w.out = append(w.out, '{')
	for i := base; i < end; i++ {
		name := w.names[i]
		if !w.name(name, i == base) || !w.any(members[name]) {
			return false
		}
	}
	w.out = append(w.out, '}')
	w.names = w.names[:base]
	w.depth--
	return true
}

func (w *writer) array(elements []any) bool {
	if elements == nil {
		return w.literal("null")
	}
	if w.depth++; w.depth > maxDepth {
		return false
	}
	w.out = append(w.out, '[')
	for i, element := range elements {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if !w.any(element) {
			return false
		}
	}
	w.out = append(w.out, ']')
	w.depth--
	return true
}
