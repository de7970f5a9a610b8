package controllerruntime

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"operetta.dev/sdk-go"
)

// controllerIndexes returns the indexes of Options.ControllerIndexes. The host computes them without the functions of
// IndexField, so each function has to prove on objects with and without a controller that its values are the same.
func (i *indexes) controllerIndexes(controllers []operetta.ControllerManifest) ([]operetta.IndexManifest, error) {
	var manifests []operetta.IndexManifest
	for _, field := range i.ofHost {
		kinds := i.kinds(field)
		if len(kinds) == 0 {
			return nil, fmt.Errorf("Options.ControllerIndexes: there is no index %q: register it with mgr.GetFieldIndexer().IndexField", field)
		}
		for _, kind := range kinds {
			owner, err := i.owner(indexName{kind, field}, controllers)
			if err != nil {
				return nil, fmt.Errorf("Options.ControllerIndexes: the index %q on %s: %w", field, kind.Kind, err)
			}
			manifests = append(manifests, operetta.IndexManifest{
				Name: field, APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Controller: &owner,
			})
		}
	}
	return manifests, nil
}

var errNotByController = errors.New("the function must return the name of metav1.GetControllerOf(object) if that owner has the apiVersion and kind " +
	"which a controller is For, and nothing otherwise")

// owner returns the kind of the controllers whose names are the values of an index.
func (i *indexes) owner(index indexName, controllers []operetta.ControllerManifest) (operetta.OwnerKind, error) {
	var owners []operetta.OwnerKind
	for _, of := range controllers {
		owner := operetta.OwnerKind{APIVersion: of.For.APIVersion, Kind: of.For.Kind}
		if slices.Contains(owners, owner) {
			continue
		}
		values, err := i.probe(index, ownerOf(owner, true))
		if err != nil {
			return owner, err
		}
		if slices.Equal(values, []string{probed}) {
			owners = append(owners, owner)
		}
	}
	if len(owners) != 1 {
		return operetta.OwnerKind{}, errNotByController
	}
	unknown := operetta.OwnerKind{APIVersion: "probe.operetta.dev/v1", Kind: "Probe"}
	for _, others := range [][]metav1.OwnerReference{{}, {ownerOf(owners[0], false)}, {ownerOf(unknown, true)}} {
		if values, err := i.probe(index, others...); err != nil || len(values) > 0 {
			return owners[0], errors.Join(err, errNotByController)
		}
	}
	return owners[0], nil
}

// probed is the name of the owner of a probe.
const probed = "probe"

func ownerOf(kind operetta.OwnerKind, controls bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kind.APIVersion, Kind: kind.Kind, Name: probed, UID: "1", Controller: &controls}
}

// probe returns the values of an index for an object with these owners.
func (i *indexes) probe(index indexName, owners ...metav1.OwnerReference) ([]string, error) {
	object, err := i.newObject(index.kind)
	if err != nil {
		return nil, err
	}
	object.SetName(probed)
	object.SetNamespace(probed)
	object.SetOwnerReferences(owners)
	extract, _ := i.get(index.kind, index.field)
	return extract(object), nil
}
