// Kinds, keys and objects.

package operetta

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

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

// Object is a pointer to a Kubernetes object as a Go type, which is read and written as by encoding/json. There are three kinds of
// such types.
//
// A struct of your own embeds [TypeMeta] and [ObjectMeta], has the fields that you use, and returns its kind:
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
// A type with apimachinery's TypeMeta and ObjectMeta, such as those of k8s.io/api and of kubebuilder projects, has its
// kind from [RegisterKind].
//
// [Unstructured] is for kinds that have no Go type.
type Object interface {
	GetName() string
	GetGenerateName() string
	GetNamespace() string
	GetFinalizers() []string
	SetFinalizers(finalizers []string)
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

// kinds has the registered kinds by their types.
var kinds sync.Map

// RegisterKind sets the kind of a type that has no method `GroupVersionKind() operetta.GroupVersionKind`, such as
// those of k8s.io/api. Call it from func init:
//
//	func init() { operetta.RegisterKind[appsv1.Deployment](operetta.GVK("apps/v1", "Deployment")) }
//
// RegisterKind panics if the type embeds no ObjectMeta.
func RegisterKind[T any, P Pointer[T]](kind GroupVersionKind) {
	object := P(new(T))
	metaOf(object)
	kinds.Store(reflect.TypeOf(object), kind)
}

// KindOf returns the kind of a type. It panics as [KindOfObject] does.
func KindOf[T any, P Pointer[T]]() GroupVersionKind { return KindOfObject(P(new(T))) }

// KindOfObject returns the kind of an object: that of its method GroupVersionKind, or else the one of [RegisterKind]. It
// panics if the type has neither.
func KindOfObject(object Object) GroupVersionKind {
	if typed, ok := object.(interface{ GroupVersionKind() GroupVersionKind }); ok {
		return typed.GroupVersionKind()
	}
	kind, found := kinds.Load(reflect.TypeOf(object))
	if !found {
		panic(fmt.Sprintf("the kind of %T is not known: add a method `GroupVersionKind() operetta.GroupVersionKind`, or "+
			"call operetta.RegisterKind[%s](operetta.GVK(\"GROUP/VERSION\", \"KIND\")) in func init",
			object, strings.TrimPrefix(fmt.Sprintf("%T", object), "*")))
	}
	return kind.(GroupVersionKind)
}

// KeyOf returns an object's key.
func KeyOf(object Object) Key { return Key{Namespace: object.GetNamespace(), Name: object.GetName()} }
