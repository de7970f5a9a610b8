// Package codec reads and writes Kubernetes objects as JSON, faster than encoding/json: in one pass, without reflection for
// each value, and with strings that share the memory of the text.
//
// Its results are those of encoding/json. It knows the values that objects are made of, and gives up where encoding/json
// reports an error or does something rare: the caller then asks encoding/json. Types that it does not know, such as arrays and
// interfaces with methods, it passes to encoding/json one value at a time.
package codec

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// form is the way to read or write the values of a type.
type form uint8

const (
	// opaque values are passed to encoding/json.
	opaque form = iota
	// custom values have methods that read or write them.
	custom
	text
	boolean
	signed
	unsigned
	float
	binary
	dynamic
	pointer
	list
	textList
	textMap
	dynamicMap
	otherMap
	record
)

// plan says how values of a type are read and written. It does not change once it is built.
type plan struct {
	reads, writes form
	of            reflect.Type
	kind          reflect.Kind
	size          uintptr
	// elem is the plan of what a pointer, list or map has.
	elem   *plan
	fields []field
}

// field is a field of a struct, or of one that it embeds.
type field struct {
	name string
	// key is the name as JSON with its colon.
	key                 string
	plan                *plan
	offset              uintptr
	omitEmpty, omitZero bool
	// isZero is true if the type has a method IsZero that omitZero asks.
	isZero bool
}

var (
	plans sync.Map

	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	marshaler       = reflect.TypeFor[json.Marshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	zeroer          = reflect.TypeFor[interface{ IsZero() bool }]()
	number          = reflect.TypeFor[json.Number]()
)

// planOf returns the plan of a type. It builds each one once in a process.
func planOf(of reflect.Type) *plan {
	if found, ok := plans.Load(of); ok {
		return found.(*plan)
	}
	building := map[reflect.Type]*plan{}
	p := build(of, building)
	for of, p := range building {
		plans.Store(of, p)
	}
	return p
}

// build returns a type's plan. building has those that are begun: a type may contain itself.
func build(of reflect.Type, building map[reflect.Type]*plan) *plan {
	if found, ok := plans.Load(of); ok {
		return found.(*plan)
	}
	if p := building[of]; p != nil {
		return p
	}
	p := &plan{of: of, kind: of.Kind(), size: of.Size()}
	building[of] = p
	p.shape(building)
	if p.kind == reflect.Pointer {
		return p
	}
	to := reflect.PointerTo(of)
	switch {
	case to.Implements(unmarshaler):
		p.reads = custom
		// The first assertion of a type costs more than the next ones.
		_, _ = reflect.New(of).Interface().(json.Unmarshaler)
	case to.Implements(textUnmarshaler):
		p.reads = opaque
	}
	switch {
	case to.Implements(marshaler):
		p.writes = custom
		_, _ = reflect.New(of).Interface().(json.Marshaler)
	case to.Implements(textMarshaler):
		p.writes = opaque
	}
	return p
}

// shape sets the forms of a type without methods.
func (p *plan) shape(building map[reflect.Type]*plan) {
	forms := func(form form) { p.reads, p.writes = form, form }
	switch p.kind {
	case reflect.String:
		if p.of != number {
			forms(text)
		}
	case reflect.Bool:
		forms(boolean)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		forms(signed)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		forms(unsigned)
	case reflect.Float32, reflect.Float64:
		forms(float)
	case reflect.Interface:
		if p.of.NumMethod() == 0 {
			forms(dynamic)
		}
	case reflect.Pointer:
		p.elem = build(p.of.Elem(), building)
		forms(pointer)
	case reflect.Slice:
		p.elem = build(p.of.Elem(), building)
		switch {
		case p.elem.kind == reflect.Uint8:
			if p.elem.reads == unsigned && p.elem.writes == unsigned {
				forms(binary)
			}
		case p.elem.reads == text && p.elem.writes == text:
			forms(textList)
		default:
			forms(list)
		}
	case reflect.Map:
		p.shapeMap(building)
	case reflect.Struct:
		if p.addFields(p.of, 0, building) {
			forms(record)
		}
	}
}

func (p *plan) shapeMap(building map[reflect.Type]*plan) {
	key := build(p.of.Key(), building)
	if key.reads != text || key.writes != text {
		return
	}
	p.elem = build(p.of.Elem(), building)
	switch {
	case p.elem.reads == text && p.elem.writes == text:
		p.reads, p.writes = textMap, textMap
	case p.elem.reads == dynamic:
		p.reads, p.writes = dynamicMap, dynamicMap
	default:
		p.reads = otherMap
	}
}

// addFields adds a struct's fields, in the order of encoding/json. It returns false for what encoding/json alone can do: two
// fields of one name, embedded pointers and numbers in strings.
func (p *plan) addFields(of reflect.Type, offset uintptr, building map[reflect.Type]*plan) bool {
	for i := range of.NumField() {
		member := of.Field(i)
		if !member.IsExported() && !(member.Anonymous && member.Type.Kind() == reflect.Struct) {
			if member.Anonymous && member.Type.Kind() == reflect.Pointer {
				return false
			}
			continue
		}
		tag := member.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" && member.Anonymous {
			if member.Type.Kind() == reflect.Pointer {
				return false
			}
			if member.Type.Kind() == reflect.Struct {
				if !p.addFields(member.Type, offset+member.Offset, building) {
					return false
				}
				continue
			}
		}
		if name == "" {
			name = member.Name
		}
		f := field{name: name, key: `"` + name + `":`, offset: offset + member.Offset}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "string":
				return false
			case "omitempty":
				f.omitEmpty = true
			case "omitzero":
				f.omitZero = true
				f.isZero = member.Type.Implements(zeroer) || reflect.PointerTo(member.Type).Implements(zeroer)
				if f.isZero && member.Type.Kind() == reflect.Interface {
					return false
				}
			}
		}
		if !plain(name) || p.has(name) {
			return false
		}
		f.plan = build(member.Type, building)
		p.fields = append(p.fields, f)
	}
	return true
}

func (p *plan) has(name string) bool {
	for i := range p.fields {
		if p.fields[i].name == name {
			return true
		}
	}
	return false
}

// plain reports whether a name is one that encoding/json takes as it is and writes without escapes.
func plain(name string) bool {
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/') {
			return false
		}
	}
	return name != ""
}

// find returns the field of a name, and where to look for the next one: most texts have their fields in an order. As in
// encoding/json, upper and lower case do not matter if no field has just this name, unless exact is set.
func (p *plan) find(name string, from int, exact bool) (*field, int) {
	for i := from; i < len(p.fields); i++ {
		if len(p.fields[i].name) == len(name) && p.fields[i].name == name {
			return &p.fields[i], i + 1
		}
	}
	for i := range from {
		if len(p.fields[i].name) == len(name) && p.fields[i].name == name {
			return &p.fields[i], i + 1
		}
	}
	for i := range p.fields {
		if !exact && strings.EqualFold(p.fields[i].name, name) {
			return &p.fields[i], i + 1
		}
	}
	return nil, from
}
