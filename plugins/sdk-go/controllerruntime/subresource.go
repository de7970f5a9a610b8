package controllerruntime

import (
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"operetta.dev/sdk-go"
)

func (c *kubeClient) Status() client.SubResourceWriter { return subresource{c, "status"} }

func (c *kubeClient) SubResource(name string) client.SubResourceClient { return subresource{c, name} }

type subresource struct {
	client *kubeClient
	name   string
}

func (s subresource) Get(ctx context.Context, object, into client.Object, _ ...client.SubResourceGetOption) error {
	defer s.client.warned(ctx)
	of, err := s.client.target(object)
	if err != nil {
		return err
	}
	return s.client.send(of, request{method: "GET", subresource: s.name}, into)
}

func (s subresource) Create(ctx context.Context, object, body client.Object, opts ...client.SubResourceCreateOption) error {
	defer s.client.warned(ctx)
	options := (&client.SubResourceCreateOptions{}).ApplyOptions(opts)
	of, err := s.client.target(object)
	if err != nil {
		return err
	}
	_, text, err := s.client.encode(body)
	if err != nil {
		return err
	}
	return s.client.send(of, request{
		method: "POST", subresource: s.name, body: text,
		dryRun: options.DryRun, manager: options.FieldManager, validation: options.FieldValidation,
	}, body)
}

func (s subresource) Update(ctx context.Context, object client.Object, opts ...client.SubResourceUpdateOption) error {
	defer s.client.warned(ctx)
	options := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	of, body, err := s.sent(object, options.SubResourceBody)
	if err != nil {
		return err
	}
	if options.SubResourceBody != nil {
		body.SetName(of.key.Name)
		body.SetNamespace(of.key.Namespace)
	}
	_, text, err := s.client.encode(body)
	if err != nil {
		return err
	}
	if s.name == "status" {
		text, err = s.client.api.get().UpdateStatus(of.kind(), of.objectKey(), text, writeOptions(options.DryRun, options.FieldManager, options.FieldValidation))
		return answered(of, text, err, body)
	}
	return s.client.send(of, request{
		method: "PUT", subresource: s.name, body: text,
		dryRun: options.DryRun, manager: options.FieldManager, validation: options.FieldValidation,
	}, body)
}

func (s subresource) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	defer s.client.warned(ctx)
	options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	of, body, err := s.sent(object, options.SubResourceBody)
	if err != nil {
		return err
	}
	return s.client.patch(of, s.name, body, patch, body, &options.PatchOptions)
}

func (s subresource) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	defer s.client.warned(ctx)
	options := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	body := configuration
	if options.SubResourceBody != nil {
		body = options.SubResourceBody
	}
	return s.client.apply(s.name, body, &options.ApplyOptions)
}

// sent returns the kind and key of an object, and what a write of its subresource sends: the body, or without one the
// object itself.
func (s subresource) sent(object, body client.Object) (target, client.Object, error) {
	of, err := s.client.target(object)
	if body == nil {
		body = object
	}
	return of, body, err
}

// request is a request for which the contract has no call.
type request struct {
	method, subresource, contentType string
	body                             []byte
	dryRun                           []string
	manager, validation              string
	force                            *bool
}

// send sends a request about an object over raw HTTP.
func (c *kubeClient) send(of target, r request, into client.Object) error {
	mapping, err := c.mapper.RESTMapping(of.GroupKind(), of.Version)
	if err != nil {
		return err
	}
	path := groupPath(mapping.Resource.GroupVersion())
	if of.key.Namespace != "" {
		path += "/namespaces/" + of.key.Namespace
	}
	path += "/" + mapping.Resource.Resource + "/" + of.key.Name
	if r.subresource != "" {
		path += "/" + r.subresource
	}
	query := url.Values{}
	for _, value := range r.dryRun {
		query.Add("dryRun", value)
	}
	for name, value := range map[string]string{"fieldManager": r.manager, "fieldValidation": r.validation} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if r.force != nil && *r.force {
		query.Set("force", "true")
	}
	response := c.api.get().Raw(operetta.RawRequest{
		Method: r.method, Path: path, Query: query.Encode(), ContentType: r.contentType, Body: r.body,
	})
	if response.Status >= 300 {
		return responseError(response)
	}
	return decode(response.Body, into)
}
