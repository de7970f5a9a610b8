// Create-or-update: brings one object to its desired state and writes only changes.

package operetta

import (
	"context"
	"fmt"

	"operetta.dev/sdk-go/internal/codec"
)

// OperationResult is the outcome of [Client.CreateOrUpdate].
type OperationResult string

const (
	// Created means that the object did not exist.
	Created OperationResult = "created"
	// Updated means that the object was changed.
	Updated OperationResult = "updated"
	// Unchanged means that nothing was written.
	Unchanged OperationResult = "unchanged"
)

// CreateOrUpdate reads the object of object's key into object, calls mutate, and creates or updates the object if
// mutate changed it (controller-runtime's CreateOrUpdate). Fields that the type does not have are preserved, except
// inside a list that changes. The status is not written.
//
// mutate should set only the desired fields, and no values that the API server rewrites. An absent field, null and an
// empty list or map are equal. mutate must not change the name or namespace.
//
// It returns the error of mutate or of the API server. [IsConflict] is true for the error if the object is newer than
// the cache.
func (c *Client) CreateOrUpdate(ctx context.Context, object Object, mutate func() error) (OperationResult, error) {
	if err := ctx.Err(); err != nil {
		return Unchanged, err
	}
	if object.GetName() == "" {
		return Unchanged, unnamed(object)
	}
	kind, key := KindOfObject(object), KeyOf(object)
	run := func() error {
		if err := mutate(); err != nil {
			return err
		}
		if KeyOf(object) != key {
			return Terminalf("create-or-update: %s %s became %s; mutate may not change the key", kind, key, KeyOf(object))
		}
		return nil
	}
	text, err := c.api.Get(kind, key, Cached)
	if IsNotFound(err) {
		if err := run(); err != nil {
			return Unchanged, err
		}
		return Created, c.Create(ctx, object)
	}
	if err != nil {
		return Unchanged, err
	}
	if err := decode(text, object); err != nil {
		return Unchanged, err
	}
	before, err := asMap(object)
	if err != nil {
		return Unchanged, err
	}
	if err := run(); err != nil {
		return Unchanged, err
	}
	after, err := asMap(object)
	if err != nil {
		return Unchanged, err
	}
	if same(before, after) {
		return Unchanged, nil
	}
	whole, err := decodeMap(text)
	if err != nil {
		return Unchanged, fmt.Errorf("%s %s: %w", kind, key, err)
	}
	carryOver(whole, before, after)
	body, err := codec.Marshal(whole)
	if err != nil {
		return Unchanged, err
	}
	text, err = c.api.Update(kind, key, body, WriteOptions{})
	if err := stored(text, err, object); err != nil {
		return Unchanged, err
	}
	return Updated, nil
}

func asMap(object Object) (map[string]any, error) {
	text, err := encode(object)
	if err != nil {
		return nil, err
	}
	return decodeMap(text)
}
