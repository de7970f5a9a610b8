package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// writer writes a JSON text. Its methods return false to give up.
type writer struct {
	out   []byte
	depth int
	// names holds the sorted names of the maps that are being written.
	names []string
}

// textSize is the size that most objects have as text.
const textSize = 4 << 10

// Marshal is json.Marshal.
func Marshal(value any) ([]byte, error) {
	if text, ok := Append(make([]byte, 0, textSize), value); ok {
		return text, nil
	}
	return json.Marshal(value)
}

// Append appends what a pointer or map refers to as JSON, as json.Marshal writes it. It returns false if it gives up.
func Append(out []byte, object any) ([]byte, bool) {
	w := writer{out: out}
	ok := w.any(object)
	return w.out, ok
}

func (w *writer) value(p *plan, from unsafe.Pointer) bool {
	switch p.writes {
	case text:
		return w.string(*(*string)(from))
	case record:
		return w.record(p, from)
	case pointer:
		target := *(*unsafe.Pointer)(from)
		if target == nil {
			return w.literal("null")
		}
		if w.depth++; w.depth > maxDepth {
			return false
		}
		ok := w.value(p.elem, target)
		w.depth--
		return ok
	case dynamic:
		return w.any(*(*any)(from))
	case dynamicMap:
		return w.object(*(*map[string]any)(from))
	case textMap:
		return w.texts(*(*map[string]string)(from))
	case list:
		return w.list(p, from)
	case textList:
		return w.strings(*(*[]string)(from))
	case binary:
		return w.binary(*(*[]byte)(from))
	case boolean:
		w.out = strconv.AppendBool(w.out, *(*bool)(from))
		return true
	case signed:
		w.out = strconv.AppendInt(w.out, load(p.size, from), 10)
		return true
	case unsigned:
		w.out = strconv.AppendUint(w.out, uint64(load(p.size, from))&(1<<(p.size*8-1)<<1-1), 10)
		return true
	case float:
		if p.size == 8 {
			return w.float(*(*float64)(from))
		}
	case custom:
		return w.custom(p, from)
	}
	return w.opaque(reflect.NewAt(p.of, from).Interface())
}

func (w *writer) literal(word string) bool {
	w.out = append(w.out, word...)
	return true
}

// opaque writes a value by encoding/json.
func (w *writer) opaque(value any) bool {
	text, err := json.Marshal(value)
	w.out = append(w.out, text...)
	return err == nil
}

// custom writes a value by its method, in the form that encoding/json gives it.
func (w *writer) custom(p *plan, from unsafe.Pointer) bool {
	text, err := reflect.NewAt(p.of, from).Interface().(json.Marshaler).MarshalJSON()
	if err != nil {
		return false
	}
	if isPlain(text) {
		w.out = append(w.out, text...)
		return true
	}
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return false
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	w.out = append(w.out, escaped.Bytes()...)
	return true
}

// isPlain reports whether a text is a string or a whole number that encoding/json leaves as it is.
func isPlain(text []byte) bool {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		for _, c := range text[1 : len(text)-1] {
			if !safe[c] {
				return false
			}
		}
		return true
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) == 1 || len(text) > 1 && text[0] != '0'
}

func load(size uintptr, from unsafe.Pointer) int64 {
	switch size {
	case 1:
		return int64(*(*int8)(from))
	case 2:
		return int64(*(*int16)(from))
	case 4:
		return int64(*(*int32)(from))
	}
	return *(*int64)(from)
}

func (w *writer) record(p *plan, from unsafe.Pointer) bool {
	w.out = append(w.out, '{')
	begin := len(w.out)
	for i := range p.fields {
		f := &p.fields[i]
		at := unsafe.Add(from, f.offset)
		if f.omitEmpty && isEmpty(f.plan, at) || f.omitZero && f.zero(at) {
			continue
		}
		if len(w.out) > begin {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, f.key...)
		if !w.value(f.plan, at) {
			return false
		}
	}
	w.out = append(w.out, '}')
	return true
}

// isEmpty reports whether a value is empty in the sense of omitempty.
func isEmpty(p *plan, at unsafe.Pointer) bool {
	switch p.kind {
	case reflect.String:
		return len(*(*string)(at)) == 0
	case reflect.Slice:
		return (*sliceOf)(at).len == 0
	case reflect.Map:
		// The length of a map does not depend on its type.
		return len(*(*map[string]any)(at)) == 0
	case reflect.Pointer, reflect.Interface:
		return *(*unsafe.Pointer)(at) == nil
	case reflect.Bool:
		return !*(*bool)(at)
	case reflect.Float32:
		return *(*float32)(at) == 0
	case reflect.Float64:
		return *(*float64)(at) == 0
	case reflect.Struct:
		return false
	case reflect.Array:
		return p.of.Len() == 0
	}
	return p.kind >= reflect.Int && p.kind <= reflect.Uintptr && load(p.size, at) == 0
}

// zero reports whether a value is zero in the sense of omitzero.
func (f *field) zero(at unsafe.Pointer) bool {
	value := reflect.NewAt(f.plan.of, at)
	if !f.isZero {
		return value.Elem().IsZero()
	}
	if f.plan.kind == reflect.Pointer {
		return value.Elem().IsNil() || value.Elem().Interface().(interface{ IsZero() bool }).IsZero()
	}
	return value.Interface().(interface{ IsZero() bool }).IsZero()
}

func (w *writer) list(p *plan, from unsafe.Pointer) bool {
	elements := (*sliceOf)(from)
	if elements.data == nil {
		return w.literal("null")
	}
	if w.depth++; w.depth > maxDepth {
		return false
	}
	w.out = append(w.out, '[')
	for i := range elements.len {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if !w.value(p.elem, unsafe.Add(elements.data, uintptr(i)*p.elem.size)) {
			return false
		}
	}
	w.out = append(w.out, ']')
	w.depth--
	return true
}

func (w *writer) strings(values []string) bool {
	if values == nil {
		return w.literal("null")
	}
	w.out = append(w.out, '[')
	for i, value := range values {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if !w.string(value) {
			return false
		}
	}
	w.out = append(w.out, ']')
	return true
}

func (w *writer) binary(value []byte) bool {
	if value == nil {
		return w.literal("null")
	}
	w.out = append(w.out, '"')
	w.out = base64.StdEncoding.AppendEncode(w.out, value)
	w.out = append(w.out, '"')
	return true
}

// float writes a number of at most 15 digits; encoding/json writes others.
func (w *writer) float(value float64) bool {
	if integer := int64(value); value > -1e15 && value < 1e15 && float64(integer) == value && integer != 0 {
		w.out = strconv.AppendInt(w.out, integer, 10)
		return true
	}
	return w.opaque(value)
}

// safe has the bytes that need no escape in a string.
var safe = func() (safe [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		safe[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return safe
}()

func (w *writer) string(value string) bool {
	for i := range len(value) {
		if !safe[value[i]] {
			return w.escaped(value, i)
		}
	}
	w.out = append(w.out, '"')
	w.out = append(w.out, value...)
	w.out = append(w.out, '"')
	return true
}

// escaped writes a string whose first special byte is at i.
func (w *writer) escaped(value string, i int) bool {
	const hex = "0123456789abcdef"
	copied := 0
	w.out = append(w.out, '"')
	for ; i < len(value); i++ {
		c := value[i]
		if safe[c] {
			continue
		}
		if c >= utf8.RuneSelf {
			char, size := utf8.DecodeRuneInString(value[i:])
			if !(char == utf8.RuneError && size == 1) && char != '\u2028' && char != '\u2029' {
				i += size - 1
				continue
			}
			w.out = append(append(w.out, value[copied:i]...), `\u`...)
			for shift := 12; shift >= 0; shift -= 4 {
				w.out = append(w.out, hex[char>>shift&15])
			}
			i += size - 1
			copied = i + 1
			continue
		}
		w.out = append(append(w.out, value[copied:i]...), '\\')
		switch c {
		case '"', '\\':
			w.out = append(w.out, c)
		case '\b':
			w.out = append(w.out, 'b')
		case '\f':
			w.out = append(w.out, 'f')
		case '\n':
			w.out = append(w.out, 'n')
		case '\r':
			w.out = append(w.out, 'r')
		case '\t':
			w.out = append(w.out, 't')
		default:
			w.out = append(w.out, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		copied = i + 1
	}
	w.out = append(append(w.out, value[copied:]...), '"')
	return true
}

func (w *writer) texts(members map[string]string) bool {
	if members == nil {
		return w.literal("null")
	}
	base := takeNames(w, members)
	w.out = append(w.out, '{')
	for i, name := range w.names[base:] {
		if !w.name(name, i == 0) || !w.string(members[name]) {
			return false
		}
	}
	w.out = append(w.out, '}')
	w.names = w.names[:base]
	return true
}

// takeNames appends the names of an object's members to w.names, sorted. It returns the place of the first one.
func takeNames[V any](w *writer, members map[string]V) int {
	base := len(w.names)
	for name := range members {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names[base:])
	return base
}

// name writes a member's name, after a comma unless it is the first one.
func (w *writer) name(name string, isFirst bool) bool {
	if !isFirst {
		w.out = append(w.out, ',')
	}
	if !w.string(name) {
		return false
	}
	w.out = append(w.out, ':')
	return true
}
