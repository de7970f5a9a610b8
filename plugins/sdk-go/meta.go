// Object metadata, owners and finalizers.

package operetta

import (
	"fmt"
	"slices"
	"time"
)

// ObjectMeta is metav1.ObjectMeta without the fields that only the API server uses (managedFields, selfLink).
type ObjectMeta struct {
	Name         string `json:"name,omitempty"`
	GenerateName string `json:"generateName,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	UID          string `json:"uid,omitempty"`
	// ResourceVersion is opaque; an update of a version other than the stored one is a conflict.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation increases with each change of the desired state.
	Generation        int64      `json:"generation,omitempty"`
	CreationTimestamp *time.Time `json:"creationTimestamp,omitempty"`
	// DeletionTimestamp is set while a deleted object still has finalizers.
	DeletionTimestamp          *time.Time        `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds,omitempty"`
	Labels                     map[string]string `json:"labels,omitempty"`
	Annotations                map[string]string `json:"annotations,omitempty"`
	OwnerReferences            []OwnerReference  `json:"ownerReferences,omitempty"`
	Finalizers                 []string          `json:"finalizers,omitempty"`
}

// GetName returns the name.
func (m *ObjectMeta) GetName() string { return m.Name }

// GetGenerateName returns the prefix of a name that the API server generates.
func (m *ObjectMeta) GetGenerateName() string { return m.GenerateName }

// GetNamespace returns the namespace.
func (m *ObjectMeta) GetNamespace() string { return m.Namespace }

// GetFinalizers returns the finalizers.
func (m *ObjectMeta) GetFinalizers() []string { return m.Finalizers }

// SetFinalizers sets the finalizers.
func (m *ObjectMeta) SetFinalizers(finalizers []string) { m.Finalizers = finalizers }

// OwnerReference is metav1.OwnerReference.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// AlreadyOwnedError is the error of [SetControllerReference] if another object controls the dependent.
type AlreadyOwnedError struct {
	// Object is the dependent, e.g. `apps/v1 Deployment ns/web`.
	Object string
	// Owner is the existing owner reference.
	Owner OwnerReference
}

func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("%s is already controlled by %s %s", e.Object, e.Owner.Kind, e.Owner.Name)
}

// ControllerOf returns a copy of the reference to the controlling owner, or nil.
func ControllerOf(object Object) *OwnerReference {
	owners := ownersOf(object)
	i := slices.IndexFunc(owners, func(o OwnerReference) bool { return o.Controller != nil && *o.Controller })
	if i < 0 {
		return nil
	}
	owner := owners[i]
	return &owner
}

// IsControlledBy reports whether owner is the controlling owner, by its uid.
func IsControlledBy(object, owner Object) bool {
	controller := ControllerOf(object)
	return controller != nil && controller.UID != "" && controller.UID == uidOf(owner)
}

// SetControllerReference makes owner the controlling owner of object. The garbage collector deletes the object after
// its owner, and with [Controller.Owns] the object's events enqueue the owner. It returns an *[AlreadyOwnedError] if
// another object controls the object, and an error if the owner has no uid, because it is not stored, or is in another
// namespace.
func SetControllerReference(owner, object Object) error {
	kind, uid := KindOfObject(owner), uidOf(owner)
	what := fmt.Sprintf("%s %s", KindOfObject(object), KeyOf(object))
	switch {
	case uid == "":
		return fmt.Errorf("%s cannot be owned by %s %s: the owner has no uid; read it from the API server first", what, kind, KeyOf(owner))
	case owner.GetNamespace() != "" && owner.GetNamespace() != object.GetNamespace():
		return fmt.Errorf("%s cannot be owned by %s %s: an owner must be in the same namespace or cluster-scoped", what, kind, KeyOf(owner))
	}
	yes := true
	reference := OwnerReference{
		APIVersion: kind.APIVersion, Kind: kind.Kind, Name: owner.GetName(), UID: uid,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
	if there := ControllerOf(object); there != nil && there.UID != uid {
		return &AlreadyOwnedError{Object: what, Owner: *there}
	}
	owners := ownersOf(object)
	if i := slices.IndexFunc(owners, func(o OwnerReference) bool { return o.UID == uid }); i >= 0 {
		owners[i] = reference
	} else {
		owners = append(owners, reference)
	}
	setOwners(object, owners)
	return nil
}

// HasFinalizer reports whether the object has a finalizer.
func HasFinalizer(object Object, finalizer string) bool {
	return slices.Contains(object.GetFinalizers(), finalizer)
}

// AddFinalizer adds a finalizer and reports whether the object changed and must be updated. [Controller.Finalizer]
// declares it.
func AddFinalizer(object Object, finalizer string) bool {
	if HasFinalizer(object, finalizer) {
		return false
	}
	object.SetFinalizers(append(object.GetFinalizers(), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer and reports whether the object changed and must be updated.
func RemoveFinalizer(object Object, finalizer string) bool {
	if !HasFinalizer(object, finalizer) {
		return false
	}
	object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == finalizer }))
	return true
}
