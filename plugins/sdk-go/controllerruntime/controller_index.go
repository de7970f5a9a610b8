package controllerruntime

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"operetta.dev/sdk-go"
)

// controllerIndexes returns the indexes of Options.ControllerIndexes. The host computes them without the functions of
// IndexField, so each function has to prove on objects with and without a controller that its values are the same.
func (m *manager) controllerIndexes() ([]operetta.IndexManifest, error) {
	var manifests []operetta.IndexManifest
	for _, field := range m.options.ControllerIndexes {
		kinds := m.indexes.kinds(field)
		if len(kinds) == 0 {
			return nil, fmt.Errorf("Options.ControllerIndexes: there is no index %q: register it with mgr.GetFieldIndexer().IndexField", field)
		}
		for _, kind := range kinds {
			owner, err := m.indexedOwner(indexName{kind, field})
			if err != nil {
				return nil, fmt.Errorf("Options.ControllerIndexes: the index %q on %s: %w", field, kind.Kind, err)
			}
			manifests = append(manifests, operetta.IndexManifest{
				Name: field, APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
				Controller: &operetta.OwnerKind{APIVersion: owner.GroupVersion().String(), Kind: owner.Kind},
			})
		}
	}
	return manifests, nil
}

var errNotByController = errors.New("the function must return the name of metav1.GetControllerOf(object) if that owner has the apiVersion and kind " +
	"which a controller is For, and nothing otherwise")

// indexedOwner returns the kind of the controllers whose names are the values of an index.
func (m *manager) indexedOwner(index indexName) (schema.GroupVersionKind, error) {
	var owners []schema.GroupVersionKind
	for _, of := range m.controllers {
		watches, err := m.watches(of)
		if err != nil {
			return schema.GroupVersionKind{}, err
		}
		first := reconciled(watches)
		if first < 0 || slices.Contains(owners, watches[first].kind) {
			continue
		}
		values, err := m.indexes.probe(index, ownerOf(watches[first].kind, true))
		if err != nil {
			return schema.GroupVersionKind{}, err
		}
		if slices.Equal(values, []string{probed}) {
			owners = append(owners, watches[first].kind)
		}
	}
	if len(owners) != 1 {
		return schema.GroupVersionKind{}, errNotByController
	}
	unknown := schema.GroupVersionKind{Group: "probe.operetta.dev", Version: "v1", Kind: "Probe"}
	for _, others := range [][]metav1.OwnerReference{{}, {ownerOf(owners[0], false)}, {ownerOf(unknown, true)}} {
		if values, err := m.indexes.probe(index, others...); err != nil || len(values) > 0 {
			return schema.GroupVersionKind{}, errors.Join(err, errNotByController)
		}
	}
	return owners[0], nil
}

// probed is the name of the owner of a probe.
const probed = "probe"

func ownerOf(kind schema.GroupVersionKind, controls bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: probed, UID: "1", Controller: &controls}
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
