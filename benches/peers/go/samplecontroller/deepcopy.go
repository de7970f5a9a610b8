// The methods that controller-gen generates in a kubebuilder project; they are not counted.

package main

import "k8s.io/apimachinery/pkg/runtime"

// DeepCopyObject returns a copy of the Foo.
func (f *Foo) DeepCopyObject() runtime.Object {
	copied := *f
	f.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	if f.Spec.Replicas != nil {
		replicas := *f.Spec.Replicas
		copied.Spec.Replicas = &replicas
	}
	if f.Status != nil {
		status := *f.Status
		copied.Status = &status
	}
	return &copied
}

// DeepCopyObject returns a copy of the list.
func (l *FooList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Foo, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Foo)
	}
	return &copied
}
