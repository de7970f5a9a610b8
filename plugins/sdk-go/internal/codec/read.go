package codec

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// Read reads a JSON text into a pointer to a zero value, as json.Unmarshal does. It returns false if it gives up; the value is
// then undefined. The value keeps the text, which must not change afterwards.
func Read(text []byte, into any) bool {
	r := newReader(text, floats)
	return r.read(into)
}

// ReadExact reads a text as [Read] does, but as UnmarshalCaseSensitivePreserveInts of sigs.k8s.io/json: upper and lower case of
// names matter, and integers in dynamic values become int64. unmarshal is that function.
func ReadExact(text []byte, into any, unmarshal Unmarshal) bool {
	r := newReader(text, integers)
	r.exact, r.other = true, unmarshal
	return r.read(into)
}

func newReader(text []byte, numbers numbers) reader {
	return reader{text: unsafe.String(unsafe.SliceData(text), len(text)), numbers: numbers, other: json.Unmarshal}
}

func (r *reader) read(into any) bool {
	value := reflect.ValueOf(into)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return false
	}
	return r.value(planOf(value.Type().Elem()), value.UnsafePointer()) && r.isAtEnd()
}

func (r *reader) isAtEnd() bool { return r.peek() == 0 && r.at == len(r.text) }

// ReadMap reads a JSON object. Numbers become json.Number. It returns false if it gives up. The map keeps the text, which must
// not change afterwards.
func ReadMap(text []byte) (map[string]any, bool) {
	r := newReader(text, asWritten)
	if r.peek() != '{' {
		return nil, false
	}
	members, ok := r.object()
	return members, ok && r.isAtEnd()
}

// ReadObject reads the members of a JSON object that a struct has into the struct, which must be zero, and returns the others.
// Numbers in the others become json.Number. It returns false if it gives up. Both keep the text, which must not change afterwards.
func ReadObject(text []byte, into any) (map[string]any, bool) {
	r := newReader(text, asWritten)
	value := reflect.ValueOf(into)
	p := planOf(value.Type().Elem())
	if r.peek() != '{' {
		return nil, false
	}
	others := map[string]any{}
	var seen uint
	more, ok := r.enter('}')
	for more && ok {
		var name string
		if name, ok = r.name(); !ok {
			return nil, false
		}
		member, next := p.find(name, 0, false)
		switch {
		case member == nil:
			others[name], ok = r.any()
		case member.name != name || seen&(1<<next) != 0:
			// encoding/json reads it twice.
			return nil, false
		default:
			seen |= 1 << next
			ok = r.value(member.plan, unsafe.Add(value.UnsafePointer(), member.offset))
		}
		if !ok {
			return nil, false
		}
		more, ok = r.next('}')
	}
	return others, ok && r.isAtEnd()
}

// Has reports which of two names a JSON object has with a value other than null; upper and lower case do not matter. It returns
// false for ok if it gives up.
func Has(text []byte, first, second string) (hasFirst, hasSecond, ok bool) {
	r := newReader(text, floats)
	if r.peek() != '{' {
		return false, false, false
	}
	more, ok := r.enter('}')
	for more && ok && !(hasFirst && hasSecond) {
		var name string
		if name, ok = r.name(); !ok {
			return false, false, false
		}
		there := r.peek() != 'n'
		hasFirst = hasFirst || there && strings.EqualFold(name, first)
		hasSecond = hasSecond || there && strings.EqualFold(name, second)
		if !r.skip() {
			return false, false, false
		}
		more, ok = r.next('}')
	}
	return hasFirst, hasSecond, ok
}

// sliceOf is a slice of any type in memory.
type sliceOf struct {
	data     unsafe.Pointer
	len, cap int
}

// value reads a value into memory that is zero, unless a name is repeated.
func (r *reader) value(p *plan, to unsafe.Pointer) bool {
	c := r.peek()
	if c == 'n' && p.reads > custom {
		switch p.reads {
		case pointer, textMap, dynamicMap, otherMap:
			*(*unsafe.Pointer)(to) = nil
		case dynamic:
			*(*any)(to) = nil
		case list, textList, binary:
			*(*sliceOf)(to) = sliceOf{}
		}
		return r.literal("null")
	}
	switch p.reads {
	case text:
		if c != '"' {
			return false
		}
		s, ok := r.string()
		*(*string)(to) = s
		return ok
	case record:
		return c == '{' && r.record(p, to)
	case pointer:
		// A repeated name: encoding/json merges both values.
		if *(*unsafe.Pointer)(to) != nil {
			return false
		}
		target := reflect.New(p.elem.of).UnsafePointer()
		*(*unsafe.Pointer)(to) = target
		return r.value(p.elem, target)
	case dynamic:
		value, ok := r.any()
		*(*any)(to) = value
		return ok
	case dynamicMap, textMap, otherMap:
		return c == '{' && *(*unsafe.Pointer)(to) == nil && r.mapping(p, to)
	case list:
		return c == '[' && (*sliceOf)(to).data == nil && r.list(p, to)
	case textList:
		return c == '[' && (*sliceOf)(to).data == nil && r.strings(to)
	case binary:
		return c == '"' && r.binary(to)
	case boolean:
		*(*bool)(to) = c == 't'
		return c == 't' && r.literal("true") || c == 'f' && r.literal("false")
	case signed, unsigned, float:
		return r.numeric(p, to)
	}
	return r.foreign(p, to)
}

// foreign reads a value by the type's method, or by another package.
func (r *reader) foreign(p *plan, to unsafe.Pointer) bool {
	start := r.at
	if !r.skip() {
		return false
	}
	text := unsafe.Slice(unsafe.StringData(r.text), len(r.text))[start:r.at:r.at]
	value := reflect.NewAt(p.of, to).Interface()
	if p.reads == custom {
		return value.(json.Unmarshaler).UnmarshalJSON(text) == nil
	}
	return r.other(text, value) == nil
}

func (r *reader) record(p *plan, to unsafe.Pointer) bool {
	more, ok := r.enter('}')
	var from int
	for more && ok {
		var name string
		if name, ok = r.name(); !ok {
			return false
		}
		var member *field
		if member, from = p.find(name, from, r.exact); member == nil {
			ok = r.skip()
		} else {
			ok = r.value(member.plan, unsafe.Add(to, member.offset))
		}
		if !ok {
			return false
		}
		more, ok = r.next('}')
	}
	return ok
}

func (r *reader) mapping(p *plan, to unsafe.Pointer) bool {
	switch p.reads {
	case dynamicMap:
		members, ok := r.object()
		*(*map[string]any)(to) = members
		return ok
	case textMap:
		return r.texts((*map[string]string)(to))
	}
	members := reflect.MakeMap(p.of)
	reflect.NewAt(p.of, to).Elem().Set(members)
	more, ok := r.enter('}')
	for more && ok {
		var name string
		if name, ok = r.name(); !ok {
			return false
		}
		element := reflect.New(p.elem.of)
		if !r.value(p.elem, element.UnsafePointer()) {
			return false
		}
		members.SetMapIndex(reflect.ValueOf(name).Convert(p.of.Key()), element.Elem())
		more, ok = r.next('}')
	}
	return ok
}

func (r *reader) texts(to *map[string]string) bool {
	members := map[string]string{}
	*to = members
	more, ok := r.enter('}')
	for more && ok {
		var name, value string
		if name, ok = r.name(); !ok {
			return false
		}
		if value, ok = r.stringOrNull(); !ok {
			return false
		}
		members[name] = value
		more, ok = r.next('}')
	}
	return ok
}

func (r *reader) list(p *plan, to unsafe.Pointer) bool {
	elements := reflect.MakeSlice(p.of, 0, 0)
	size, length, capacity := p.elem.size, 0, 0
	more, ok := r.enter(']')
	for more && ok {
		if length == capacity {
			// Lists of large structs, such as containers, seldom have more than one.
			if capacity *= 2; capacity == 0 {
				capacity = max(1, min(4, 256/max(1, int(size))))
			}
			grown := reflect.MakeSlice(p.of, capacity, capacity)
			reflect.Copy(grown, elements)
			elements = grown
		}
		if !r.value(p.elem, unsafe.Add(elements.UnsafePointer(), uintptr(length)*size)) {
			return false
		}
		length++
		more, ok = r.next(']')
	}
	*(*sliceOf)(to) = sliceOf{elements.UnsafePointer(), length, capacity}
	return ok
}

func (r *reader) strings(to unsafe.Pointer) bool {
	base := len(r.names)
	more, ok := r.enter(']')
	for more && ok {
		var value string
		if value, ok = r.stringOrNull(); !ok {
			return false
		}
		r.names = append(r.names, value)
		more, ok = r.next(']')
	}
	values := make([]string, len(r.names)-base)
	copy(values, r.names[base:])
	r.names = r.names[:base]
	*(*[]string)(to) = values
	return ok
}

// stringOrNull reads a string; null is an empty one.
func (r *reader) stringOrNull() (string, bool) {
	switch r.peek() {
	case '"':
		return r.string()
	case 'n':
		return "", r.literal("null")
	}
	return "", false
}

func (r *reader) binary(to unsafe.Pointer) bool {
	encoded, ok := r.string()
	if !ok {
		return false
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	*(*[]byte)(to) = value
	return err == nil
}

func (r *reader) numeric(p *plan, to unsafe.Pointer) bool {
	text, integer, isInteger, ok := r.number()
	if !ok {
		return false
	}
	bits := int(p.size) * 8
	if p.reads == float {
		value := float64(integer)
		if !isInteger || bits == 32 {
			var err error
			if value, err = strconv.ParseFloat(text, bits); err != nil {
				return false
			}
		}
		if bits == 32 {
			*(*float32)(to) = float32(value)
		} else {
			*(*float64)(to) = value
		}
		return true
	}
	if !isInteger {
		if p.reads == unsigned {
			value, err := strconv.ParseUint(text, 10, bits)
			integer = int64(value)
			return err == nil && store(p.size, to, integer)
		}
		var err error
		integer, err = strconv.ParseInt(text, 10, bits)
		return err == nil && store(p.size, to, integer)
	}
	if p.reads == unsigned {
		if integer < 0 || bits < 64 && integer>>bits != 0 {
			return false
		}
	} else if rest := integer >> (bits - 1); rest != 0 && rest != -1 {
		return false
	}
	return store(p.size, to, integer)
}

// store writes an integer of a size.
func store(size uintptr, to unsafe.Pointer, value int64) bool {
	switch size {
	case 1:
		*(*int8)(to) = int8(value)
	case 2:
		*(*int16)(to) = int16(value)
	case 4:
		*(*int32)(to) = int32(value)
	default:
		*(*int64)(to) = value
	}
	return true
}
