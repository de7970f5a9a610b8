package operetta_test

import (
	"context"
	"testing"

	"operetta.dev/sdk-go"
)

// rehearsed counts how often an object is written and read as JSON.
type rehearsed struct{ ConfigMap }

var written, read int

func (*rehearsed) MarshalJSON() ([]byte, error) { written++; return []byte("{}"), nil }
func (*rehearsed) UnmarshalJSON([]byte) error   { read++; return nil }

// A snapshot is taken after Describe, so no reconcile has to examine the type.
func TestDescribeEncodesAndDecodesRegisteredKinds(t *testing.T) {
	written, read = 0, 0
	operetta.RegisterKind[rehearsed](operetta.GVK("v1", "Rehearsed"))
	plugin := operetta.NewPlugin(operetta.For("a", func(context.Context, *operetta.Client, *ConfigMap) (operetta.Result, error) {
		return operetta.Done(), nil
	}))
	if _, err := plugin.Describe(); err != nil || written != 1 || read != 1 {
		t.Fatalf("written %d times, read %d times: %v", written, read, err)
	}
}

// sourced counts as rehearsed does, and has its kind from a method.
type sourced struct{ rehearsed }

func (*sourced) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("e.dev/v1", "Sourced")
}

func TestDescribeEncodesAndDecodesTypesOfSources(t *testing.T) {
	nothing := func(context.Context, *operetta.Client) (operetta.Result, error) { return operetta.Done(), nil }
	maps := func() *operetta.Controller { return operetta.NewController("a", operetta.Of[ConfigMap](), nothing) }
	count := func(controller *operetta.Controller) int {
		written, read = 0, 0
		if _, err := operetta.NewPlugin(controller).Describe(); err != nil || written != read {
			t.Fatalf("written %d times, read %d times: %v", written, read, err)
		}
		return written
	}
	before := count(maps())
	for name, controller := range map[string]*operetta.Controller{
		"for": operetta.NewController("a", operetta.Of[sourced](), nothing), "owns": maps().Owns(operetta.Of[sourced]().WithLabels("a=b")),
		"watches": maps().Watches(operetta.Of[sourced](), operetta.ToOwner()),
		"both":    maps().Owns(operetta.Of[sourced]()).Watches(operetta.Of[sourced](), operetta.ToSameName()),
	} {
		if after := count(controller); after != before+1 {
			t.Errorf("%s: encoded and decoded %d times, want 1", name, after-before)
		}
	}
}
