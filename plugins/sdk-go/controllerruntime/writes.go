package controllerruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"operetta.dev/sdk-go"
)

func writeOptions(dryRun []string, manager, validation string) operetta.WriteOptions {
	return operetta.WriteOptions{
		DryRun: slices.Contains(dryRun, metav1.DryRunAll), FieldManager: manager,
		Strict: validation == metav1.FieldValidationStrict,
	}
}

func (c *kubeClient) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	defer c.warned(ctx)
	options := (&client.CreateOptions{}).ApplyOptions(opts)
	of, text, err := c.encode(object)
	if err != nil {
		return err
	}
	text, err = c.api.get().Create(of.kind(), of.key.Namespace, text, writeOptions(options.DryRun, options.FieldManager, options.FieldValidation))
	return answered(of, text, err, object)
}

func (c *kubeClient) Update(ctx context.Context, object client.Object, opts ...client.UpdateOption) error {
	defer c.warned(ctx)
	options := (&client.UpdateOptions{}).ApplyOptions(opts)
	of, text, err := c.encode(object)
	if err != nil {
		return err
	}
	text, err = c.api.get().Update(of.kind(), of.objectKey(), text, writeOptions(options.DryRun, options.FieldManager, options.FieldValidation))
	return answered(of, text, err, object)
}

func (c *kubeClient) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	defer c.warned(ctx)
	of, err := c.target(object)
	if err != nil {
		return err
	}
	return c.delete(of, (&client.DeleteOptions{}).ApplyOptions(opts))
}

func (c *kubeClient) delete(of target, options *client.DeleteOptions) error {
	asked := operetta.DeleteOptions{DryRun: slices.Contains(options.DryRun, metav1.DryRunAll)}
	if options.GracePeriodSeconds != nil {
		seconds := uint32(min(max(*options.GracePeriodSeconds, 0), math.MaxUint32))
		asked.GracePeriodSeconds = &seconds
	}
	if options.PropagationPolicy != nil {
		asked.Propagation = operetta.Propagation(*options.PropagationPolicy)
	}
	if preconditions := options.Preconditions; preconditions != nil {
		if preconditions.UID != nil {
			asked.UID = string(*preconditions.UID)
		}
		if preconditions.ResourceVersion != nil {
			asked.ResourceVersion = *preconditions.ResourceVersion
		}
	}
	if err := c.api.get().Delete(of.kind(), of.objectKey(), asked); err != nil {
		return statusError(of, err)
	}
	return nil
}

// DeleteAllOf lists the objects at the API server and deletes one after the other.
func (c *kubeClient) DeleteAllOf(ctx context.Context, object client.Object, opts ...client.DeleteAllOfOption) error {
	defer c.warned(ctx)
	options := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	listKind := kind
	listKind.Kind += "List"
	list.SetGroupVersionKind(listKind)
	live := *c
	live.read = operetta.Live
	if err := live.List(ctx, list, &options.ListOptions); err != nil {
		return err
	}
	for i := range list.Items {
		of := target{kind, client.ObjectKeyFromObject(&list.Items[i])}
		if err := client.IgnoreNotFound(c.delete(of, &options.DeleteOptions)); err != nil {
			return err
		}
	}
	return nil
}

func (c *kubeClient) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	defer c.warned(ctx)
	options := (&client.PatchOptions{}).ApplyOptions(opts)
	of, err := c.target(object)
	if err != nil {
		return err
	}
	return c.patch(of, "", object, patch, object, options)
}

// patch sends a patch with data from one object, and decodes the response into another.
func (c *kubeClient) patch(of target, subresource string, from client.Object, patch client.Patch, into client.Object, options *client.PatchOptions) error {
	if patch.Type() == types.ApplyPatchType {
		from.GetObjectKind().SetGroupVersionKind(of.GroupVersionKind)
	}
	body, err := patch.Data(from)
	if err != nil {
		return fmt.Errorf("the patch of %s: %w", of, err)
	}
	kinds := map[types.PatchType]operetta.PatchType{
		types.MergePatchType: operetta.Merge, types.JSONPatchType: operetta.JSON, types.ApplyPatchType: operetta.Apply,
	}
	patchType, known := kinds[patch.Type()]
	if !known || subresource != "" && subresource != "status" && subresource != "scale" {
		return c.send(of, request{
			method: "PATCH", subresource: subresource, contentType: string(patch.Type()), body: body,
			dryRun: options.DryRun, manager: options.FieldManager, validation: options.FieldValidation, force: options.Force,
		}, into)
	}
	text, err := c.api.get().Patch(of.kind(), of.objectKey(), operetta.RawPatch{
		Type: patchType, Body: body, Subresource: subresource, Force: options.Force != nil && *options.Force,
		Options: writeOptions(options.DryRun, options.FieldManager, options.FieldValidation),
	})
	return answered(of, text, err, into)
}

func (c *kubeClient) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	defer c.warned(ctx)
	options := (&client.ApplyOptions{}).ApplyOptions(opts)
	return c.apply("", configuration, options)
}

func (c *kubeClient) apply(subresource string, configuration runtime.ApplyConfiguration, options *client.ApplyOptions) error {
	body, err := json.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("the apply configuration cannot be written as JSON: %w", err)
	}
	var object unstructured.Unstructured
	if err := json.Unmarshal(body, &object); err != nil {
		return fmt.Errorf("the apply configuration names no kind: %w", err)
	}
	of := target{object.GroupVersionKind(), client.ObjectKeyFromObject(&object)}
	text, err := c.api.get().Patch(of.kind(), of.objectKey(), operetta.RawPatch{
		Type: operetta.Apply, Body: body, Subresource: subresource, Force: options.Force != nil && *options.Force,
		Options: writeOptions(options.DryRun, options.FieldManager, ""),
	})
	if err != nil {
		return statusError(of, err)
	}
	return json.Unmarshal(text, configuration)
}
