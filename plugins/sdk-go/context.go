// What a reconciler works with: the API server under the identity of the plugin's ServiceAccount, events, and the
// plugin's configuration.

package operetta

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Context is the world of one reconcile. Reads come from the host's cache unless they are called live, and see this
// plugin's own writes at once. It may be used by several goroutines; its calls go one after another.
//
// It is a context.Context without deadline: the host ends a call that takes too long.
type Context struct {
	context.Context
	api     API
	request Request
}

// NewContext returns a context over an API, for tests; in a plugin the host makes it.
func NewContext(api API, request Request) *Context {
	return &Context{Context: context.Background(), api: api, request: request}
}

// API returns the imports below the methods here, with objects as JSON.
func (c *Context) API() API { return c.api }

// Request returns what is being reconciled: its key, how often it failed before, and the reconcile's id.
func (c *Context) Request() Request { return c.request }

// Log returns a logger of this context; slog.Default is the same in a plugin.
func (c *Context) Log() *slog.Logger { return slog.New(NewLogHandler(c.api)) }

// Get reads an object from the cache into object, whose type says the kind. The error may be [IsNotFound].
func (c *Context) Get(key Key, object Object) error { return c.read(key, object, Cached) }

// GetLive reads an object from the API server.
func (c *Context) GetLive(key Key, object Object) error { return c.read(key, object, Live) }

func (c *Context) read(key Key, object Object, read Read) error {
	text, err := c.api.Get(object.GroupVersionKind(), key, read)
	if err != nil {
		return err
	}
	return decode(text, object)
}

// Get reads an object of type T from the cache.
func Get[T any, P Pointer[T]](ctx *Context, key Key) (P, error) {
	object := P(new(T))
	if err := ctx.Get(key, object); err != nil {
		return nil, err
	}
	return object, nil
}

// List reads every page of a list of Ts. Errors are [BadRequest] when a selector does not parse or an index is not
// declared, and [Expired] when the list of a live read went out of date between two pages.
func List[T any, P Pointer[T]](ctx *Context, options ListOptions) ([]T, error) {
	var all []T
	for {
		items, next, err := ListPage[T, P](ctx, options)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if options.Continue = next; next == "" {
			return all, nil
		}
	}
}

// ListPage reads one page of a list of Ts, and returns the token of the next one; empty on the last.
func ListPage[T any, P Pointer[T]](ctx *Context, options ListOptions) ([]T, string, error) {
	page, err := ctx.api.List(KindOf[T, P](), options)
	if err != nil {
		return nil, "", err
	}
	items := make([]T, len(page.Items))
	for i, text := range page.Items {
		if err := decode(text, P(&items[i])); err != nil {
			return nil, "", err
		}
	}
	return items, page.Continue, nil
}

// ListUnstructured reads every page of a list of a kind that has no Go type.
func (c *Context) ListUnstructured(kind GroupVersionKind, options ListOptions) ([]*Unstructured, error) {
	var all []*Unstructured
	for {
		page, err := c.api.List(kind, options)
		if err != nil {
			return nil, err
		}
		for _, text := range page.Items {
			item := NewUnstructured(kind, Key{})
			if err := decode(text, item); err != nil {
				return nil, err
			}
			all = append(all, item)
		}
		if options.Continue = page.Continue; page.Continue == "" {
			return all, nil
		}
	}
}

// Create creates an object and fills it in as stored. The error may be [IsAlreadyExists] or [IsInvalid].
func (c *Context) Create(object Object, options ...WriteOptions) error {
	meta := object.Meta()
	if meta.Name == "" && meta.GenerateName == "" {
		return unnamed(object)
	}
	text, err := encode(object)
	if err != nil {
		return err
	}
	text, err = c.api.Create(object.GroupVersionKind(), meta.Namespace, text, last(options))
	return stored(text, err, object)
}

// Update replaces an object and fills it in as stored; its status stays. Fields that the type does not know are lost:
// where that matters use [Context.CreateOrUpdate], [Context.Patch] or [Unstructured]. The error may be [IsConflict] when
// the object has changed since it was read.
func (c *Context) Update(object Object, options ...WriteOptions) error {
	text, err := encodeNamed(object)
	if err != nil {
		return err
	}
	text, err = c.api.Update(object.GroupVersionKind(), KeyOf(object), text, last(options))
	return stored(text, err, object)
}

// UpdateStatus replaces an object's status through the status subresource, and fills the object in as stored. The error
// is [IsNotFound] also when the kind has no status subresource.
func (c *Context) UpdateStatus(object Object, options ...WriteOptions) error {
	text, err := encodeNamed(object)
	if err != nil {
		return err
	}
	text, err = c.api.UpdateStatus(object.GroupVersionKind(), KeyOf(object), text, last(options))
	return stored(text, err, object)
}

// Patch patches the object of this object's kind and key, and fills object in with the answer: the object as stored, or
// the subresource.
func (c *Context) Patch(object Object, patch Patch) error {
	if object.Meta().Name == "" {
		return unnamed(object)
	}
	kind := object.GroupVersionKind()
	body, err := json.Marshal(patch.Body)
	if err != nil {
		return malformed("the patch of %s %s cannot be written as JSON: %v", kind, KeyOf(object), err)
	}
	if patch.Type == Apply {
		if body, err = withType(body, kind); err != nil {
			return err
		}
	}
	text, err := c.api.Patch(kind, KeyOf(object), RawPatch{
		Type: patch.Type, Body: body, Subresource: patch.Subresource, Force: patch.Force, Options: patch.Options,
	})
	return stored(text, err, object)
}

// Delete deletes the object of this object's kind and key: this very one if it carries a uid, unless the options say
// otherwise. It returns once the API server has accepted it; the object may live on until its finalizers are gone.
func (c *Context) Delete(object Object, options ...DeleteOptions) error {
	if object.Meta().Name == "" {
		return unnamed(object)
	}
	chosen := last(options)
	if chosen.UID == "" {
		chosen.UID = object.Meta().UID
	}
	return c.api.Delete(object.GroupVersionKind(), KeyOf(object), chosen)
}

// Raw sends a request to the API server as HTTP has it. It never fails: what the host refuses comes back as a Status.
func (c *Context) Raw(request RawRequest) RawResponse { return c.api.Raw(request) }

// Event records an event about an object, as `kubectl describe` shows it. It returns at once and cannot fail: the host
// writes events in the background, aggregated and rate limited.
func (c *Context) Event(object Object, eventType EventType, reason, note string) {
	c.EventWithAction(object, eventType, reason, "", note)
}

// EventWithAction records an event that also says what was done, e.g. `Update`.
func (c *Context) EventWithAction(object Object, eventType EventType, reason, action, note string) {
	c.api.Emit(Event{
		Regarding: object.GroupVersionKind(), Key: KeyOf(object), UID: object.Meta().UID,
		Type: eventType, Reason: reason, Action: action, Note: note,
	})
}

// Config reads the Plugin object's `spec.config` into a value. The error is terminal: reconciling again cannot cure it.
func (c *Context) Config(into any) error {
	if err := json.Unmarshal(c.api.Config(), into); err != nil {
		return Terminalf("the plugin's config does not fit the type %T: %w", into, err)
	}
	return nil
}

func encodeNamed(object Object) ([]byte, error) {
	if object.Meta().Name == "" {
		return nil, unnamed(object)
	}
	return encode(object)
}

func unnamed(object Object) error {
	return malformed("this %s has no metadata.name", object.GroupVersionKind())
}

// stored fills an object in with an answer of the API server.
func stored(text []byte, err error, object Object) error {
	if err != nil {
		return err
	}
	if err := decode(text, object); err != nil {
		return fmt.Errorf("the write was done, but its answer cannot be read: %w", err)
	}
	return nil
}
