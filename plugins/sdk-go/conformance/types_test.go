package main

import "testing"

func TestQuantityHasCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		`"1.5Gi"`: "1536Mi", `"1000m"`: "1", `1000`: "1k", `"1024Ki"`: "1Mi", `"0.5"`: "500m", `7`: "7", `"1500M"`: "1500M",
	} {
		got, err := Quantity{[]byte(text)}.canonical()
		if err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
	}
}
