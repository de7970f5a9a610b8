package controllerruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	kjson "sigs.k8s.io/json"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/internal/codec"
)

// kubeClient is a client.Client over the host's API. Its errors are apimachinery's.
type kubeClient struct {
	api     *held
	scheme  *runtime.Scheme
	mapper  *restMapper
	indexes *indexes
	read    operetta.Read
	// warnings gets the API server's warnings after each call that the host does not answer from its cache.
	warnings rest.WarningHandlerWithContext
}

var _ client.Client = (*kubeClient)(nil)

func (c *kubeClient) Scheme() *runtime.Scheme     { return c.scheme }
func (c *kubeClient) RESTMapper() meta.RESTMapper { return c.mapper }

func (c *kubeClient) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, c.scheme)
}

func (c *kubeClient) IsObjectNamespaced(object runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(object, c.scheme, c.mapper)
}

// target is an object's kind and key.
type target struct {
	schema.GroupVersionKind
	key client.ObjectKey
}

func (c *kubeClient) target(object client.Object) (target, error) {
	kind, err := c.GroupVersionKindFor(object)
	return target{kind, client.ObjectKeyFromObject(object)}, err
}

func (t target) kind() operetta.GroupVersionKind {
	return operetta.GVK(t.GroupVersion().String(), t.Kind)
}

func (t target) objectKey() operetta.Key {
	return operetta.Key{Namespace: t.key.Namespace, Name: t.key.Name}
}

func (t target) String() string { return fmt.Sprintf("%s %s", t.Kind, t.key) }

// encode returns an object's kind and key, and the object as JSON, with apiVersion and kind.
func (c *kubeClient) encode(object client.Object) (target, []byte, error) {
	of, err := c.target(object)
	if err != nil {
		return of, nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(of.GroupVersionKind)
	text, err := codec.Marshal(object)
	if err != nil {
		return of, nil, fmt.Errorf("%s cannot be written as JSON: %w", of, err)
	}
	return of, text, nil
}

// decode reads an object or a list and replaces its previous value. The object keeps the text.
func decode(text []byte, into runtime.Object) error {
	if err := unmarshal(text, into); err != nil {
		return fmt.Errorf("failed to decode the API server's response into %T: %w", into, err)
	}
	return nil
}

// unmarshal reads an object or a list as UnmarshalCaseSensitivePreserveInts does, and replaces its previous value. The object keeps
// the text, which must not change afterwards.
func unmarshal(text []byte, into runtime.Object) error {
	if value := reflect.ValueOf(into); value.Kind() == reflect.Pointer && !value.IsNil() {
		value.Elem().SetZero()
		if codec.ReadExact(text, into, kjson.UnmarshalCaseSensitivePreserveInts) {
			return nil
		}
		value.Elem().SetZero()
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// answered decodes the result of a call into an object, or converts its error.
func answered(of target, text []byte, err error, into runtime.Object) error {
	if err != nil {
		return statusError(of, err)
	}
	return decode(text, into)
}

func (c *kubeClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if c.read == operetta.Live {
		defer c.warned(ctx)
	}
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	of := target{kind, key}
	text, err := c.api.get().Get(of.kind(), of.objectKey(), c.read)
	return answered(of, text, err, object)
}

func (c *kubeClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.read == operetta.Live {
		defer c.warned(ctx)
	}
	listKind, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind := listKind
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	options := (&client.ListOptions{}).ApplyOptions(opts)
	asked, filters, err := c.asked(kind, options)
	if err != nil {
		return err
	}
	page, err := c.api.get().List(target{GroupVersionKind: kind}.kind(), asked)
	if err != nil {
		return statusError(target{GroupVersionKind: kind}, err)
	}
	items := page.Items
	if len(filters) > 0 {
		if items, err = c.filtered(kind, items, filters); err != nil {
			return err
		}
		if options.Limit > 0 && int64(len(items)) > options.Limit {
			items = items[:options.Limit]
		}
	}
	metadata, err := json.Marshal(metav1.ListMeta{ResourceVersion: page.ResourceVersion, Continue: page.Continue})
	if err != nil {
		return err
	}
	text := func(items ...[]byte) []byte {
		var text bytes.Buffer
		fmt.Fprintf(&text, `{"apiVersion":%q,"kind":%q,"metadata":%s,"items":[`, listKind.GroupVersion(), listKind.Kind, metadata)
		text.Write(bytes.Join(items, []byte(",")))
		text.WriteString("]}")
		return text.Bytes()
	}
	err = decode(text(items...), list)
	if err == nil {
		return nil
	}
	// It does not say which of the items it is about.
	for _, item := range items {
		alone := reflect.New(reflect.TypeOf(list).Elem()).Interface().(client.ObjectList)
		if err := decode(text(item), alone); err != nil {
			return fmt.Errorf("%s: %w", target{kind, keyOf(item)}, err)
		}
	}
	return err
}

// keyOf returns the key of an object, as far as the text has it.
func keyOf(text []byte) client.ObjectKey {
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(text, &object)
	return client.ObjectKeyFromObject(&object)
}

// asked converts list options to the host's. It also returns the field requirements that need a function of IndexField.
func (c *kubeClient) asked(kind schema.GroupVersionKind, options *client.ListOptions) (operetta.ListOptions, fields.Requirements, error) {
	if raw := options.Raw; raw != nil && (raw.LabelSelector != "" || raw.FieldSelector != "" || raw.ResourceVersion != "") {
		return operetta.ListOptions{}, nil, fmt.Errorf("list of %s: Raw options are not supported; use MatchingLabels and MatchingFields", kind.Kind)
	}
	asked := operetta.ListOptions{Namespace: options.Namespace, Continue: options.Continue, Live: c.read == operetta.Live}
	if options.LabelSelector != nil {
		asked.Labels = options.LabelSelector.String()
	}
	var filters fields.Requirements
	var known []string
	if options.FieldSelector != nil {
		for _, requirement := range options.FieldSelector.Requirements() {
			_, indexed := c.indexes.get(kind, requirement.Field)
			builtIn := requirement.Field == "metadata.name" || requirement.Field == "metadata.namespace"
			switch {
			case indexed && !asked.Live:
				if requirement.Operator != selection.Equals && requirement.Operator != selection.DoubleEquals {
					return asked, nil, fmt.Errorf("non-exact field matches are not supported by the cache")
				}
				filters = append(filters, requirement)
				if slices.Contains(c.indexes.ofHost, requirement.Field) {
					asked.Index, asked.IndexValue = requirement.Field, requirement.Value
				}
			case asked.Live || builtIn:
				known = append(known, fields.Requirements{requirement}[0].Field+string(requirement.Operator)+fields.EscapeValue(requirement.Value))
			default:
				return asked, nil, fmt.Errorf("index with name field:%s does not exist: register it with mgr.GetFieldIndexer().IndexField for %s", requirement.Field, kind.Kind)
			}
		}
	}
	asked.Fields = strings.Join(known, ",")
	if options.Limit > 0 && len(filters) == 0 {
		asked.Limit = uint32(min(options.Limit, math.MaxUint32))
	}
	return asked, filters, nil
}

func (c *kubeClient) filtered(kind schema.GroupVersionKind, items [][]byte, filters fields.Requirements) ([][]byte, error) {
	var kept [][]byte
	for _, item := range items {
		all := true
		for _, filter := range filters {
			extract, _ := c.indexes.get(kind, filter.Field)
			has, err := c.indexes.has(kind, extract, item, filter.Value)
			if err != nil {
				return nil, fmt.Errorf("the index %q on %s: %w", filter.Field, kind.Kind, err)
			}
			all = all && has
		}
		if all {
			kept = append(kept, item)
		}
	}
	return kept, nil
}
