// The uid and the owner references of an object. In apimachinery's ObjectMeta they have types of that module, which this
// one does not import.

package operetta

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// uidOf returns an object's uid.
func uidOf(object Object) string { return metaOf(object).FieldByName("UID").String() }

// ownersOf returns an object's owner references: the slice itself, or a copy of another module's.
func ownersOf(object Object) []OwnerReference {
	field := metaOf(object).FieldByName("OwnerReferences")
	if own, ok := field.Interface().([]OwnerReference); ok {
		return own
	}
	var owners []OwnerReference
	convert(field.Interface(), &owners)
	return owners
}

// setOwners sets an object's owner references.
func setOwners(object Object, owners []OwnerReference) {
	field := metaOf(object).FieldByName("OwnerReferences")
	if own, ok := field.Addr().Interface().(*[]OwnerReference); ok {
		*own = owners
		return
	}
	// Otherwise the JSON would be decoded over the former elements.
	field.SetZero()
	convert(owners, field.Addr().Interface())
}

// metaOf returns the ObjectMeta that an object embeds. It panics if there is none, or one without the fields above.
func metaOf(object Object) reflect.Value {
	value := reflect.ValueOf(object)
	if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct {
		meta := value.Elem().FieldByName("ObjectMeta")
		if meta.Kind() == reflect.Struct && meta.FieldByName("UID").Kind() == reflect.String &&
			meta.FieldByName("OwnerReferences").Kind() == reflect.Slice {
			return meta
		}
	}
	panic(fmt.Sprintf("%T does not embed operetta.ObjectMeta or apimachinery's ObjectMeta", object))
}

// convert copies a value to another module's type of the same JSON.
func convert(from, to any) {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("a %T is not a %T: %v", from, to, err))
	}
}
