// Kinds, keys and objects.

package operetta

import "strings"

// GroupVersionKind names a kind as clients do, e.g. {"apps/v1", "Deployment"} or {"v1", "Pod"}.
type GroupVersionKind struct {
	// APIVersion is `group/version`, or only the version for the core group.
	APIVersion string
	// Kind is the object's `kind`.
	Kind string
}

// GVK is short for GroupVersionKind{apiVersion, kind}.
func GVK(apiVersion, kind string) GroupVersionKind {
	return GroupVersionKind{APIVersion: apiVersion, Kind: kind}
}

// Group returns the API group; empty for the core group.
func (k GroupVersionKind) Group() string {
	group, _, found := strings.Cut(k.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

func (k GroupVersionKind) String() string { return k.APIVersion + " " + k.Kind }

// Key names one object of a kind.
type Key struct {
	// Namespace is empty for objects of cluster-scoped kinds.
	Namespace string
	// Name is metadata.name.
	Name string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Object is a Kubernetes object as a Go type: a struct that embeds [TypeMeta] and [ObjectMeta] and returns its kind.
//
//	type Foo struct {
//		operetta.TypeMeta
//		operetta.ObjectMeta `json:"metadata"`
//		Spec   FooSpec    `json:"spec"`
//		Status *FooStatus `json:"status,omitempty"`
//	}
//
//	func (*Foo) GroupVersionKind() operetta.GroupVersionKind { return operetta.GVK("example.com/v1", "Foo") }
//
// encoding/json writes and reads it. [Unstructured] is an Object for kinds that have no Go type.
type Object interface {
	// GroupVersionKind returns the kind. It must not depend on the value, which may be empty.
	GroupVersionKind() GroupVersionKind
	// Meta returns the metadata. The embedded ObjectMeta implements it.
	Meta() *ObjectMeta
}

// TypeMeta holds an object's apiVersion and kind. They are filled in when an object is sent.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// Pointer is a *T that is an [Object]. It is inferred: write Get[Foo].
type Pointer[T any] interface {
	*T
	Object
}

// KindOf returns the kind of a type.
func KindOf[T any, P Pointer[T]]() GroupVersionKind { return P(new(T)).GroupVersionKind() }

// KeyOf returns an object's key.
func KeyOf(object Object) Key {
	meta := object.Meta()
	return Key{Namespace: meta.Namespace, Name: meta.Name}
}
