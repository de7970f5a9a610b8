package controllerruntime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"operetta.dev/sdk-go"
)

// restMapper is a meta.RESTMapper that reads the discovery of a group from the API server on first use.
type restMapper struct {
	api *held
	// probing makes every kind namespaced, because the manifest is made without an API server.
	probing atomic.Bool

	lock    sync.Mutex
	groups  map[string][]schema.GroupVersion
	mappers map[schema.GroupVersion]*meta.DefaultRESTMapper
}

var _ meta.RESTMapper = (*restMapper)(nil)

func newRESTMapper(api *held) *restMapper {
	return &restMapper{api: api, mappers: map[schema.GroupVersion]*meta.DefaultRESTMapper{}}
}

func groupPath(version schema.GroupVersion) string {
	if version.Group == "" {
		return "/api/" + version.Version
	}
	return "/apis/" + version.Group + "/" + version.Version
}

func (m *restMapper) discover(path string, into any) error {
	response := m.api.get().Raw(operetta.RawRequest{Method: "GET", Path: path})
	if response.Status >= 300 {
		return fmt.Errorf("discovery at %s: %w", path, responseError(response))
	}
	if err := json.Unmarshal(response.Body, into); err != nil {
		return fmt.Errorf("discovery at %s: %w", path, err)
	}
	return nil
}

// versions returns the versions of a group, the preferred one first; with all, those of every group.
func (m *restMapper) versions(group string, all bool) ([]schema.GroupVersion, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.groups == nil {
		var list metav1.APIGroupList
		if err := m.discover("/apis", &list); err != nil {
			return nil, err
		}
		groups := map[string][]schema.GroupVersion{"": {{Version: "v1"}}}
		for _, found := range list.Groups {
			versions := []schema.GroupVersion{{Group: found.Name, Version: found.PreferredVersion.Version}}
			for _, version := range found.Versions {
				if version.Version != found.PreferredVersion.Version {
					versions = append(versions, schema.GroupVersion{Group: found.Name, Version: version.Version})
				}
			}
			groups[found.Name] = versions
		}
		m.groups = groups
	}
	if !all {
		return m.groups[group], nil
	}
	var every []schema.GroupVersion
	for _, versions := range m.groups {
		every = append(every, versions...)
	}
	slices.SortFunc(every, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return every, nil
}

func (m *restMapper) of(version schema.GroupVersion) (*meta.DefaultRESTMapper, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if mapper, found := m.mappers[version]; found {
		return mapper, nil
	}
	var list metav1.APIResourceList
	if err := m.discover(groupPath(version), &list); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if resource.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		singular := resource.SingularName
		if singular == "" {
			singular = strings.ToLower(resource.Kind)
		}
		mapper.AddSpecific(version.WithKind(resource.Kind), version.WithResource(resource.Name), version.WithResource(singular), scope)
	}
	m.mappers[version] = mapper
	return mapper, nil
}

// candidates returns the versions that a kind or resource may belong to.
func (m *restMapper) candidates(group, version string) ([]schema.GroupVersion, error) {
	if version != "" && group != "" {
		return []schema.GroupVersion{{Group: group, Version: version}}, nil
	}
	versions, err := m.versions(group, group == "" && version == "")
	if version != "" {
		versions = []schema.GroupVersion{{Version: version}}
	}
	return versions, err
}

func (m *restMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	if m.probing.Load() {
		version := append(versions, "v1")[0]
		return []*meta.RESTMapping{{GroupVersionKind: kind.WithVersion(version), Scope: meta.RESTScopeNamespace}}, nil
	}
	var wanted []schema.GroupVersion
	for _, version := range versions {
		if version != "" {
			wanted = append(wanted, schema.GroupVersion{Group: kind.Group, Version: version})
		}
	}
	if len(wanted) == 0 {
		var err error
		if wanted, err = m.versions(kind.Group, false); err != nil {
			return nil, err
		}
	}
	var all []*meta.RESTMapping
	for _, version := range wanted {
		mapper, err := m.of(version)
		if err != nil {
			return nil, err
		}
		if found, err := mapper.RESTMappings(kind, version.Version); err == nil {
			all = append(all, found...)
		}
	}
	if len(all) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return all, nil
}

func (m *restMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	all, err := m.RESTMappings(kind, versions...)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (m *restMapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return each(m, resource, (*meta.DefaultRESTMapper).KindsFor)
}

func (m *restMapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return each(m, resource, (*meta.DefaultRESTMapper).ResourcesFor)
}

// each calls ask with the mapper of every version that a resource may belong to, and returns all results.
func each[T any](m *restMapper, resource schema.GroupVersionResource, ask func(*meta.DefaultRESTMapper, schema.GroupVersionResource) ([]T, error)) ([]T, error) {
	versions, err := m.candidates(resource.Group, resource.Version)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, version := range versions {
		mapper, err := m.of(version)
		if err != nil {
			return nil, err
		}
		if found, err := ask(mapper, version.WithResource(resource.Resource)); err == nil {
			all = append(all, found...)
		}
	}
	if len(all) == 0 {
		return nil, &meta.NoResourceMatchError{PartialResource: resource}
	}
	return all, nil
}

func (m *restMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	all, err := m.KindsFor(resource)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return all[0], nil
}

func (m *restMapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	all, err := m.ResourcesFor(resource)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return all[0], nil
}

func (m *restMapper) ResourceSingularizer(resource string) (string, error) {
	kind, err := m.KindFor(schema.GroupVersionResource{Resource: resource})
	if err != nil {
		return resource, err
	}
	return strings.ToLower(kind.Kind), nil
}
