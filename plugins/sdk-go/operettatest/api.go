package operettatest

import (
	"fmt"
	"slices"
	"strconv"

	"operetta.dev/sdk-go"
)

// Cluster implements the contract's imports. Reconcilers call them through [operetta.Client].
var _ operetta.API = (*Cluster)(nil)

// Get returns one object.
func (c *Cluster) Get(kind operetta.GroupVersionKind, key operetta.Key, _ operetta.Read) ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.fail(VerbGet); err != nil {
		return nil, err
	}
	object, err := c.store.get(kind, key)
	return encode(object), err
}

// List returns one page.
func (c *Cluster) List(kind operetta.GroupVersionKind, options operetta.ListOptions) (operetta.Page, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.fail(VerbList); err != nil {
		return operetta.Page{}, err
	}
	if options.Live && (options.Index != "" || options.OwnerUID != "") {
		return operetta.Page{}, badRequest("owners and indexes need a cached read")
	}
	chosen, err := c.chooser(kind, options)
	if err != nil {
		return operetta.Page{}, err
	}
	skip := 0
	if options.Continue != "" {
		if skip, err = strconv.Atoi(options.Continue); err != nil {
			return operetta.Page{}, badRequest("%q is not a continue token", options.Continue)
		}
	}
	page := operetta.Page{ResourceVersion: strconv.Itoa(c.store.version)}
	at := 0
	for _, key := range c.store.keysOf(kind) {
		object := c.store.objects[id{kind, key}]
		if !chosen(key, object) {
			continue
		}
		if at++; at <= skip {
			continue
		}
		if options.Limit > 0 && len(page.Items) == int(options.Limit) {
			page.Continue = strconv.Itoa(at - 1)
			break
		}
		page.Items = append(page.Items, encode(projected(object, options.Projection)))
	}
	return page, nil
}

func (c *Cluster) chooser(kind operetta.GroupVersionKind, options operetta.ListOptions) (func(operetta.Key, object) bool, error) {
	labels, err := parseSelector(options.Labels)
	if err != nil {
		return nil, err
	}
	fields, err := parseFields(options.Fields)
	if err != nil {
		return nil, err
	}
	value := func(object) (string, bool) { return "", true }
	wanted := ""
	switch {
	case options.Index != "":
		i := slices.IndexFunc(c.indexes, func(of operetta.IndexManifest) bool {
			return of.Name == options.Index && of.APIVersion == kind.APIVersion && of.Kind == kind.Kind
		})
		if i < 0 {
			return nil, badRequest("the index %q is not declared on %s; Plugin.Index and its siblings do that", options.Index, kind)
		}
		value, wanted = indexed(c.indexes[i]), options.IndexValue
	case options.OwnerUID != "":
		value, wanted = controllerUID, options.OwnerUID
	}
	return func(key operetta.Key, of object) bool {
		found, ok := value(of)
		return ok && found == wanted && (options.Namespace == "" || options.Namespace == key.Namespace) &&
			labels.matches(member(of, "metadata", "labels")) && fields.matches(object{
			"metadata.name": key.Name, "metadata.namespace": key.Namespace,
		})
	}, nil
}

// write applies a write to the store, or to a copy of it for a dry run.
func (c *Cluster) write(verb Verb, options operetta.WriteOptions, kind operetta.GroupVersionKind, key operetta.Key, do func(*store) (object, error)) ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.fail(verb); err != nil {
		return nil, err
	}
	if options.Strict {
		return nil, unsupported("strict field validation")
	}
	store := c.store
	if options.DryRun {
		store = store.clone()
	}
	written, err := do(store)
	if err != nil {
		return nil, err
	}
	if !options.DryRun {
		c.writes = append(c.writes, Write{verb, kind, key})
	}
	return encode(written), nil
}

// Create creates an object.
func (c *Cluster) Create(kind operetta.GroupVersionKind, namespace string, text []byte, options operetta.WriteOptions) ([]byte, error) {
	key := operetta.Key{Namespace: namespace}
	if of, err := decode(text); err == nil {
		key.Name = asString(member(of, "metadata"), "name")
	}
	return c.write(VerbCreate, options, kind, key, func(s *store) (object, error) { return s.create(kind, namespace, text) })
}

// Update replaces an object.
func (c *Cluster) Update(kind operetta.GroupVersionKind, key operetta.Key, text []byte, options operetta.WriteOptions) ([]byte, error) {
	return c.write(VerbUpdate, options, kind, key, func(s *store) (object, error) { return s.updateText(kind, key, text, false) })
}

// UpdateStatus replaces an object's status.
func (c *Cluster) UpdateStatus(kind operetta.GroupVersionKind, key operetta.Key, text []byte, options operetta.WriteOptions) ([]byte, error) {
	return c.write(VerbUpdateStatus, options, kind, key, func(s *store) (object, error) { return s.updateText(kind, key, text, true) })
}

// Patch patches an object or its status.
func (c *Cluster) Patch(kind operetta.GroupVersionKind, key operetta.Key, patch operetta.RawPatch) ([]byte, error) {
	return c.write(VerbPatch, patch.Options, kind, key, func(s *store) (object, error) {
		switch patch.Subresource {
		case "", "status":
		default:
			return nil, unsupported(fmt.Sprintf("the subresource %s", patch.Subresource))
		}
		before, err := s.get(kind, key)
		if err != nil {
			return nil, err
		}
		after, err := patched(before, patch)
		if err != nil {
			return nil, err
		}
		return s.update(kind, key, after, patch.Subresource == "status")
	})
}

// Delete deletes an object, or marks it deleted while it has finalizers.
func (c *Cluster) Delete(kind operetta.GroupVersionKind, key operetta.Key, options operetta.DeleteOptions) error {
	_, err := c.write(VerbDelete, operetta.WriteOptions{DryRun: options.DryRun}, kind, key, func(s *store) (object, error) {
		return object{}, s.delete(kind, key, options)
	})
	return err
}

// Raw calls the function of [Cluster.OnRaw].
func (c *Cluster) Raw(request operetta.RawRequest) operetta.RawResponse {
	if c.raw != nil {
		return c.raw(request)
	}
	return operetta.RawResponse{Status: 501, ContentType: "application/json", Body: []byte(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","code":501,"reason":"NotImplemented",` +
			`"message":"the test kit answers raw requests only through Cluster.OnRaw"}`)}
}

// Emit records an Event.
func (c *Cluster) Emit(event operetta.Event) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.events = append(c.events, event)
}

// LogEnabled returns true: every level is recorded.
func (c *Cluster) LogEnabled(operetta.LogLevel) bool { return true }

// Log records a line.
func (c *Cluster) Log(level operetta.LogLevel, message string, fields []operetta.LogField) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.logs = append(c.logs, LogLine{level, message, fields})
}

// Config returns the config of [Cluster.SetConfig].
func (c *Cluster) Config() []byte { return c.config }

func badRequest(format string, args ...any) error {
	return operetta.NewAPIError(operetta.BadRequest, fmt.Sprintf(format, args...))
}

// unsupported returns the error of a call that the test kit does not support.
func unsupported(what string) error {
	return operetta.NewAPIError(operetta.Other, "the test kit does not know "+what+"; test it on a real API server")
}
