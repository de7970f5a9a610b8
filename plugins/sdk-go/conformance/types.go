package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"operetta.dev/sdk-go"
)

// ConfigMap is a v1 ConfigMap.
type ConfigMap struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

// GroupVersionKind returns v1 ConfigMap.
func (*ConfigMap) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("v1", "ConfigMap")
}

// Widget is the custom resource of the suite.
type Widget struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                WidgetSpec    `json:"spec"`
	Status              *WidgetStatus `json:"status,omitempty"`
}

// GroupVersionKind returns the kind of the CRD.
func (*Widget) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("conformance.operetta.dev/v1", "Widget")
}

// WidgetSpec has a field for each kind of value that must survive a round trip.
type WidgetSpec struct {
	Big     int64           `json:"big,omitempty"`
	Size    Quantity        `json:"size,omitzero"`
	Note    json.RawMessage `json:"note,omitempty"`
	Touched bool            `json:"touched,omitempty"`
}

// WidgetStatus is the status that update-status writes.
type WidgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

// Quantity is a resource.Quantity as JSON: a string or an integer, in its original form.
type Quantity struct{ json.RawMessage }

// MarshalJSON writes the original text.
func (q Quantity) MarshalJSON() ([]byte, error) { return q.RawMessage, nil }

// UnmarshalJSON keeps the original text.
func (q *Quantity) UnmarshalJSON(text []byte) error {
	q.RawMessage = bytes.Clone(text)
	return nil
}

type suffix struct {
	text     string
	exponent int
}

// families are the suffixes of quantities with the base of their exponents, the greatest suffix first.
var families = []struct {
	base     int64
	suffixes []suffix
}{
	{2, []suffix{{"Ei", 60}, {"Pi", 50}, {"Ti", 40}, {"Gi", 30}, {"Mi", 20}, {"Ki", 10}}},
	{10, []suffix{
		{"E", 18}, {"P", 15}, {"T", 12}, {"G", 9}, {"M", 6}, {"k", 3}, {"", 0}, {"m", -3}, {"u", -6}, {"n", -9},
	}},
}

// canonical returns apimachinery's canonical form: an integer with the greatest suffix of the quantity's family that
// leaves no fraction. A binary quantity without such a suffix gets a decimal one.
func (q Quantity) canonical() (string, error) {
	text := strings.Trim(string(q.RawMessage), `"`)
	for i, family := range families {
		for _, from := range family.suffixes {
			number, found := strings.CutSuffix(text, from.text)
			value, ok := new(big.Rat).SetString(number)
			if !found || !ok {
				continue
			}
			value.Mul(value, power(family.base, from.exponent))
			for _, to := range families[i:] {
				for _, suffix := range to.suffixes {
					if scaled := new(big.Rat).Quo(value, power(to.base, suffix.exponent)); scaled.IsInt() {
						return scaled.Num().String() + suffix.text, nil
					}
				}
			}
		}
	}
	return "", fmt.Errorf("%s is not a quantity", text)
}

func power(base int64, exponent int) *big.Rat {
	of := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(max(exponent, -exponent))), nil))
	if exponent < 0 {
		of.Inv(of)
	}
	return of
}
