package controllerruntime

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"operetta.dev/sdk-go"
)

// transport is an http.RoundTripper over the host's raw requests. It serves HTTP clients, such as client-go's clientset
// with the manager's rest.Config. It supports JSON only, and no watches.
type transport struct{ api *held }

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("the body of %s %s: %w", r.Method, r.URL.Path, err)
		}
		if len(body) == 0 {
			body = nil
		}
	}
	api := t.api.get()
	response := api.Raw(operetta.RawRequest{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, ContentType: r.Header.Get("Content-Type"),
		Accept: acceptsJSON(r.Header.Get("Accept")), Body: body,
	})
	header := http.Header{"Content-Type": {response.ContentType}}
	if response.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(response.RetryAfter/time.Second)))
	}
	addWarnings(header, api)
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", response.Status, http.StatusText(response.Status)),
		StatusCode: response.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		ContentLength: int64(len(response.Body)), Body: io.NopCloser(bytes.NewReader(response.Body)), Request: r,
	}, nil
}

// acceptsJSON returns the first variant of JSON in an Accept header; empty for plain JSON.
func acceptsJSON(accept string) string {
	for _, form := range strings.Split(accept, ",") {
		if form = strings.TrimSpace(form); strings.HasPrefix(form, "application/json;") {
			return form
		}
	}
	return ""
}
