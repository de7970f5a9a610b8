// The client of a reconcile: reads, writes, Events and the plugin's configuration, under the identity of the plugin's
// ServiceAccount.

package operetta

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"operetta.dev/sdk-go/internal/codec"
)

// Client reads and writes objects under the identity of the plugin's ServiceAccount, as controller-runtime's client
// does. Reads come from the host's cache unless they are live, and see the plugin's own writes at once. A client may be
// used by several goroutines; its calls run one after another.
//
// Each method takes a context and returns its error once the context is done. The host ends a reconcile at its deadline
// regardless.
type Client struct {
	api API
}

// NewClient returns a client over an API, for tests. In a plugin the host makes it.
func NewClient(api API) *Client { return &Client{api: api} }

// API returns the API that the client calls, with objects as JSON.
func (c *Client) API() API { return c.api }

// Log returns a logger that writes to the plugin's log; in a plugin slog.Default is the same.
func (c *Client) Log() *slog.Logger { return slog.New(NewLogHandler(c.api)) }

type requestKey struct{}

// WithRequest returns a context that carries the request of a reconcile, for tests. In a plugin the host makes it.
func WithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, requestKey{}, request)
}

// RequestFrom returns the request of the reconcile that ctx belongs to: the key, the retries and the id of the
// reconcile. It is empty for any other context.
func RequestFrom(ctx context.Context) Request {
	request, _ := ctx.Value(requestKey{}).(Request)
	return request
}

// Get reads an object from the cache into object, whose type determines the kind. It returns an error for which
// [IsNotFound] is true if the object does not exist.
func (c *Client) Get(ctx context.Context, key Key, object Object) error {
	return c.read(ctx, key, object, Cached)
}

// GetLive reads an object from the API server, as [Client.Get] does from the cache.
func (c *Client) GetLive(ctx context.Context, key Key, object Object) error {
	return c.read(ctx, key, object, Live)
}

func (c *Client) read(ctx context.Context, key Key, object Object, read Read) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := c.api.Get(KindOfObject(object), key, read)
	if err != nil {
		return err
	}
	return decode(text, object)
}

// Get reads an object of type T from the cache, and returns an error as [Client.Get] does.
func Get[T any, P Pointer[T]](ctx context.Context, client *Client, key Key) (P, error) {
	object := P(new(T))
	if err := client.Get(ctx, key, object); err != nil {
		return nil, err
	}
	return object, nil
}

// List reads every page of a list of Ts. It returns a [BadRequest] error if a selector does not parse, an index is not
// declared or an object does not fit the type ([ListEach] has the others), and an [Expired] error if a live list expired
// between two pages.
func List[T any, P Pointer[T]](ctx context.Context, client *Client, options ListOptions) ([]T, error) {
	var all []T
	for {
		items, next, err := ListPage[T, P](ctx, client, options)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if options.Continue = next; next == "" {
			return all, nil
		}
	}
}

// A Misfit is an object of a list that does not fit its Go type.
type Misfit struct {
	// Key is the object's key.
	Key Key
	// Err names the field.
	Err error
}

// ListEach reads every page of a list of Ts, object by object: one that does not fit the type hides no other. It
// returns an error as [List] does.
func ListEach[T any, P Pointer[T]](ctx context.Context, client *Client, options ListOptions) ([]T, []Misfit, error) {
	var all []T
	var misfits []Misfit
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		page, err := client.api.List(KindOf[T, P](), options)
		if err != nil {
			return nil, nil, err
		}
		for _, text := range page.Items {
			var item T
			if err := decode(text, P(&item)); err != nil {
				misfits = append(misfits, Misfit{Key: keyOf(text), Err: err})
				continue
			}
			all = append(all, item)
		}
		if options.Continue = page.Continue; page.Continue == "" {
			return all, misfits, nil
		}
	}
}

// ListPage reads one page of a list of Ts, and returns the token of the next one; empty on the last. It returns an
// error as [List] does.
func ListPage[T any, P Pointer[T]](ctx context.Context, client *Client, options ListOptions) ([]T, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	page, err := client.api.List(KindOf[T, P](), options)
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
func (c *Client) ListUnstructured(
	ctx context.Context, kind GroupVersionKind, options ListOptions,
) ([]*Unstructured, error) {
	var all []*Unstructured
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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

// Create creates an object and sets it to the stored object. It returns an error for which [IsAlreadyExists] is true if
// the object exists, and one for which [IsInvalid] is true if the API server rejects it.
func (c *Client) Create(ctx context.Context, object Object, options ...WriteOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if object.GetName() == "" && object.GetGenerateName() == "" {
		return unnamed(object)
	}
	text, err := encode(object)
	if err != nil {
		return err
	}
	text, err = c.api.Create(KindOfObject(object), object.GetNamespace(), text, last(options))
	return stored(text, err, object)
}

// Update replaces an object, without its status, and sets it to the stored object. Fields that the type does not have
// are lost; [Client.CreateOrUpdate], [Client.Patch] and [Unstructured] preserve them. It returns an error for which
// [IsConflict] is true if the object has changed since it was read.
func (c *Client) Update(ctx context.Context, object Object, options ...WriteOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := encodeNamed(object)
	if err != nil {
		return err
	}
	text, err = c.api.Update(KindOfObject(object), KeyOf(object), text, last(options))
	return stored(text, err, object)
}

// UpdateStatus replaces an object's status through the status subresource, and sets the object to the stored one. It
// returns an error for which [IsNotFound] is true if the object does not exist or the kind has no status subresource.
func (c *Client) UpdateStatus(ctx context.Context, object Object, options ...WriteOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := encodeNamed(object)
	if err != nil {
		return err
	}
	text, err = c.api.UpdateStatus(KindOfObject(object), KeyOf(object), text, last(options))
	return stored(text, err, object)
}

// Patch patches the object of this object's kind and key, and sets object to the response: the stored object, or the
// subresource.
func (c *Client) Patch(ctx context.Context, object Object, patch Patch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if object.GetName() == "" {
		return unnamed(object)
	}
	kind := KindOfObject(object)
	body, err := codec.Marshal(patch.Body)
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

// Delete deletes the object of this object's kind and key. The uid of the object, if it has one, is a precondition,
// unless the options name another. Delete returns when the API server has accepted the deletion; the object stays until
// its finalizers are removed.
func (c *Client) Delete(ctx context.Context, object Object, options ...DeleteOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if object.GetName() == "" {
		return unnamed(object)
	}
	chosen := last(options)
	if chosen.UID == "" {
		chosen.UID = uidOf(object)
	}
	return c.api.Delete(KindOfObject(object), KeyOf(object), chosen)
}

// Raw sends an HTTP request to the API server. If the host rejects the request, the response is a Status, as of the API
// server. Raw returns an error only if the context is done.
func (c *Client) Raw(ctx context.Context, request RawRequest) (RawResponse, error) {
	if err := ctx.Err(); err != nil {
		return RawResponse{}, err
	}
	return c.api.Raw(request), nil
}

// TakeWarnings returns the API server's warnings about the calls since the last time, in order: fields that it dropped,
// such as `unknown field "spec.colour"`, deprecated versions, remarks of webhooks and policies. The host reports each
// text once in the plugin's log, so most plugins need not ask.
//
// At most 64 texts and 16 KiB are kept until they are taken; later ones are dropped. A call that the host answers itself
// has none: a cached read, or a write that would change nothing.
func (c *Client) TakeWarnings() []string { return c.api.TakeWarnings() }

// Event records an Event about an object, as `kubectl describe` shows it. It returns at once and cannot fail: the host
// writes Events in the background, aggregated and rate limited.
func (c *Client) Event(object Object, eventType EventType, reason, note string) {
	c.EventWithAction(object, eventType, reason, "", note)
}

// EventWithAction records an Event that also names the action, e.g. `Update`.
func (c *Client) EventWithAction(object Object, eventType EventType, reason, action, note string) {
	c.api.Emit(Event{
		Regarding: KindOfObject(object), Key: KeyOf(object), UID: uidOf(object),
		Type: eventType, Reason: reason, Action: action, Note: note,
	})
}

// Config decodes the Plugin object's `spec.config` into a value. The error is terminal, because a retry cannot succeed.
func (c *Client) Config(into any) error {
	if err := json.Unmarshal(c.api.Config(), into); err != nil {
		return Terminalf("the plugin's config does not fit the type %T: %w", into, err)
	}
	return nil
}

func encodeNamed(object Object) ([]byte, error) {
	if object.GetName() == "" {
		return nil, unnamed(object)
	}
	return encode(object)
}

func unnamed(object Object) error {
	return malformed("this %s has no metadata.name", KindOfObject(object))
}

// stored decodes a response of the API server into an object.
func stored(text []byte, err error, object Object) error {
	if err != nil {
		return err
	}
	if err := decode(text, object); err != nil {
		return fmt.Errorf("the write succeeded, but decoding the response failed: %w", err)
	}
	return nil
}
