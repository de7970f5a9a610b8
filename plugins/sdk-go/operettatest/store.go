package operettatest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"operetta.dev/sdk-go"
)

// plain lists the built-in kinds without a status subresource and without a generation.
var plain = []string{
	"ConfigMap", "Secret", "ServiceAccount", "Endpoints", "EndpointSlice", "Event", "LimitRange", "PodTemplate", "Role",
	"RoleBinding", "ClusterRole", "ClusterRoleBinding", "StorageClass", "Lease",
}

// system lists the metadata fields that only the API server changes.
var system = []string{
	"uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
}

type id struct {
	kind operetta.GroupVersionKind
	key  operetta.Key
}

// store holds the objects, with the API server's semantics of writes. Every object in it has a name, uid,
// resourceVersion and creationTimestamp.
type store struct {
	objects map[id]object
	// version is the last resourceVersion; also the clock, in seconds, and the last uid.
	version  int
	noStatus map[operetta.GroupVersionKind]bool
}

func newStore() *store {
	return &store{objects: map[id]object{}, noStatus: map[operetta.GroupVersionKind]bool{}}
}

// clone returns a copy of the store. Objects are shared, because they are never changed in place.
func (s *store) clone() *store {
	return &store{objects: maps.Clone(s.objects), version: s.version, noStatus: s.noStatus}
}

func isPlain(kind operetta.GroupVersionKind) bool {
	return isBuiltIn(kind) && slices.Contains(plain, kind.Kind)
}

func (s *store) hasStatus(kind operetta.GroupVersionKind) bool {
	return !isPlain(kind) && !s.noStatus[kind]
}

// keysOf returns the keys of a kind, ordered by namespace, then name.
func (s *store) keysOf(kind operetta.GroupVersionKind) []operetta.Key {
	var keys []operetta.Key
	for of := range s.objects {
		if of.kind == kind {
			keys = append(keys, of.key)
		}
	}
	slices.SortFunc(keys, func(a, b operetta.Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return keys
}

func (s *store) get(kind operetta.GroupVersionKind, key operetta.Key) (object, error) {
	if of, found := s.objects[id{kind, key}]; found {
		return of, nil
	}
	return nil, operetta.NewAPIError(operetta.NotFound, fmt.Sprintf("%s %q not found", kind, key))
}

// read parses an object and checks it against the kind and key of the request.
func read(kind operetta.GroupVersionKind, key operetta.Key, of object) (object, error) {
	of = clone(of)
	for name, want := range map[string]string{"apiVersion": kind.APIVersion, "kind": kind.Kind} {
		if _, found := of[name]; !found {
			of[name] = want
		}
		if got := asString(of, name); got != want {
			return nil, badRequest("the object's %s is %q, the request is about a %s", name, got, kind)
		}
	}
	meta := metadata(of)
	maps.DeleteFunc(meta, func(_ string, value any) bool { return value == nil })
	if namespace := asString(meta, "namespace"); namespace != "" && namespace != key.Namespace {
		return nil, badRequest("the namespace of the object (%s) does not match the request's (%s)", namespace, key.Namespace)
	}
	if name := asString(meta, "name"); key.Name != "" && name != key.Name {
		return nil, badRequest("the name of the object (%s) does not match the request's (%s)", name, key.Name)
	}
	if key.Namespace != "" {
		meta["namespace"] = key.Namespace
	}
	if err := dropNulls(of, isBuiltIn(kind), ""); err != nil {
		return nil, err
	}
	if kind == operetta.GVK("v1", "Secret") {
		stringData(of)
	}
	return of, nil
}

// dropNulls removes nulls, which built-in kinds read as absent fields. In a custom resource the schema decides.
func dropNulls(value any, builtIn bool, path string) error {
	switch value := value.(type) {
	case object:
		for name, inner := range value {
			if inner == nil && !builtIn {
				return unsupported(fmt.Sprintf("null at %s.%s (leave the field out when it is nil)", path, name))
			}
			if inner == nil {
				delete(value, name)
			} else if err := dropNulls(inner, builtIn, path+"."+name); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range value {
			if err := dropNulls(inner, builtIn, path+"[]"); err != nil {
				return err
			}
		}
	}
	return nil
}

// stringData writes the stringData of a Secret into its data.
func stringData(of object) {
	for name, value := range member(of, "stringData") {
		if member(of, "data") == nil {
			of["data"] = object{}
		}
		text, _ := value.(string)
		member(of, "data")[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(of, "stringData")
}

// stamp sets the system fields of a new object; keep preserves those that are set.
func (s *store) stamp(kind operetta.GroupVersionKind, of object, keep bool) {
	s.version++
	meta := metadata(of)
	set := func(name string, value any) {
		if _, found := meta[name]; !found || !keep {
			meta[name] = value
		}
	}
	set("uid", fmt.Sprintf("00000000-0000-4000-8000-%012d", s.version))
	set("resourceVersion", strconv.Itoa(s.version))
	set("creationTimestamp", now(s.version))
	if !isPlain(kind) {
		set("generation", json.Number("1"))
	}
}

// seed adds an object unchanged.
func (s *store) seed(kind operetta.GroupVersionKind, text []byte) error {
	of, err := decode(text)
	if err != nil {
		return err
	}
	meta := member(of, "metadata")
	key := operetta.Key{Namespace: asString(meta, "namespace"), Name: asString(meta, "name")}
	if key.Name == "" {
		return badRequest("it has no name")
	}
	if of, err = read(kind, key, of); err != nil {
		return err
	}
	if _, found := s.objects[id{kind, key}]; found {
		return alreadyExists(kind, key)
	}
	s.stamp(kind, of, true)
	s.objects[id{kind, key}] = of
	return nil
}

func (s *store) create(kind operetta.GroupVersionKind, namespace string, text []byte) (object, error) {
	of, err := decode(text)
	if err != nil {
		return nil, err
	}
	key := operetta.Key{Namespace: namespace}
	if of, err = read(kind, key, of); err != nil {
		return nil, err
	}
	meta := metadata(of)
	if key.Name = asString(meta, "name"); key.Name == "" {
		return nil, unsupported("generateName")
	}
	if asString(meta, "resourceVersion") != "" {
		err := operetta.NewAPIError(operetta.Unavailable, "resourceVersion should not be set on objects to be created")
		err.Status.Code, err.Status.Reason = 500, ""
		return nil, err
	}
	for _, name := range append([]string{"managedFields", "selfLink"}, system...) {
		delete(meta, name)
	}
	if _, found := s.objects[id{kind, key}]; found {
		return nil, alreadyExists(kind, key)
	}
	if s.hasStatus(kind) {
		delete(of, "status")
	}
	s.stamp(kind, of, false)
	s.objects[id{kind, key}] = of
	return of, nil
}

func (s *store) updateText(kind operetta.GroupVersionKind, key operetta.Key, text []byte, status bool) (object, error) {
	given, err := decode(text)
	if err != nil {
		return nil, err
	}
	return s.update(kind, key, given, status)
}

// update replaces an object without its status, or only its status.
func (s *store) update(kind operetta.GroupVersionKind, key operetta.Key, given object, status bool) (object, error) {
	old, err := s.get(kind, key)
	if err != nil {
		return nil, err
	}
	if given, err = read(kind, key, given); err != nil {
		return nil, err
	}
	if status && !s.hasStatus(kind) {
		return nil, operetta.NewAPIError(operetta.NotFound, fmt.Sprintf("%s has no status subresource", kind))
	}
	if err := checkCurrent(kind, key, old, given); err != nil {
		return nil, err
	}
	updated := given
	switch {
	case status:
		updated = withStatus(clone(old), given)
	case s.hasStatus(kind):
		updated = withStatus(given, old)
	}
	for _, name := range system {
		if value, found := member(old, "metadata")[name]; found {
			metadata(updated)[name] = value
		} else {
			delete(metadata(updated), name)
		}
	}
	if _, deleting := member(old, "metadata")["deletionTimestamp"]; deleting {
		for _, finalizer := range finalizers(updated) {
			if !slices.Contains(finalizers(old), finalizer) {
				return nil, invalid(kind, key, "metadata.finalizers", "no new finalizers can be added if the object is being deleted")
			}
		}
	}
	if equal(old, updated) {
		return old, nil
	}
	if !isPlain(kind) && !equal(s.desired(kind, old), s.desired(kind, updated)) {
		bumpGeneration(updated)
	}
	return s.put(kind, key, updated), nil
}

func withStatus(of, from object) object {
	if status, found := from["status"]; found {
		of["status"] = clone(status)
	} else {
		delete(of, "status")
	}
	return of
}

// desired returns the part of an object whose changes increase the generation.
func (s *store) desired(kind operetta.GroupVersionKind, of object) object {
	desired := maps.Clone(of)
	delete(desired, "metadata")
	if s.hasStatus(kind) {
		delete(desired, "status")
	}
	return desired
}

// put stores a new version of an object. It removes an object that is being deleted and has no finalizers.
func (s *store) put(kind operetta.GroupVersionKind, key operetta.Key, of object) object {
	s.version++
	meta := metadata(of)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	if _, deleting := meta["deletionTimestamp"]; deleting && len(finalizers(of)) == 0 {
		delete(s.objects, id{kind, key})
	} else {
		s.objects[id{kind, key}] = of
	}
	return of
}

func (s *store) delete(kind operetta.GroupVersionKind, key operetta.Key, options operetta.DeleteOptions) error {
	if options.Propagation == operetta.Foreground || options.Propagation == operetta.Orphan {
		return unsupported("foreground and orphan deletion")
	}
	of, err := s.get(kind, key)
	if err != nil {
		return err
	}
	for name, want := range map[string]string{"uid": options.UID, "resourceVersion": options.ResourceVersion} {
		if got := asString(member(of, "metadata"), name); want != "" && want != got {
			return conflict(kind, key, fmt.Sprintf("Precondition failed: %s in precondition: %s, in object meta: %s", name, want, got))
		}
	}
	if len(finalizers(of)) == 0 {
		s.version++
		delete(s.objects, id{kind, key})
		return nil
	}
	if _, deleting := member(of, "metadata")["deletionTimestamp"]; deleting {
		return nil
	}
	of = clone(of)
	meta := metadata(of)
	meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = now(s.version), json.Number("0")
	if !isPlain(kind) {
		bumpGeneration(of)
	}
	s.put(kind, key, of)
	return nil
}

// checkCurrent checks the uid and resourceVersion of an update against the stored object.
func checkCurrent(kind operetta.GroupVersionKind, key operetta.Key, old, given object) error {
	field := func(of object, name string) string { return asString(member(of, "metadata"), name) }
	uid, version := field(given, "uid"), field(given, "resourceVersion")
	switch {
	case uid != "" && uid != field(old, "uid"):
		return conflict(kind, key, "Precondition failed: UID in precondition: "+uid)
	case version == "" && !isBuiltIn(kind):
		return invalid(kind, key, "metadata.resourceVersion", "must be specified for an update")
	case version != "" && version != field(old, "resourceVersion"):
		return conflict(kind, key, "the object has been modified; please apply your changes to the latest version and try again")
	}
	return nil
}

func bumpGeneration(of object) {
	generation, _ := metadata(of)["generation"].(json.Number)
	number, _ := generation.Int64()
	metadata(of)["generation"] = json.Number(strconv.FormatInt(number+1, 10))
}

func alreadyExists(kind operetta.GroupVersionKind, key operetta.Key) error {
	return operetta.NewAPIError(operetta.AlreadyExists, fmt.Sprintf("%s %q already exists", kind, key))
}

func conflict(kind operetta.GroupVersionKind, key operetta.Key, why string) error {
	return operetta.NewAPIError(operetta.Conflict, fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", kind, key, why))
}

func invalid(kind operetta.GroupVersionKind, key operetta.Key, field, why string) error {
	err := operetta.NewAPIError(operetta.Invalid, fmt.Sprintf("%s %q is invalid: %s: %s", kind, key, field, why))
	err.Status.Causes = []operetta.Cause{{Reason: "FieldValueInvalid", Message: why, Field: field}}
	return err
}
