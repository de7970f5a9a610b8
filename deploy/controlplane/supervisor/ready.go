// Readiness probes of the control plane, over plain HTTPS to the API server, and
// the creation of the objects that kwok needs.

package supervisor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"operetta.dev/deploy/controlplane/stages"
)

// probeInterval is short: an idle wait costs the start more than the probes.
const probeInterval = 25 * time.Millisecond

type client struct {
	http  *http.Client
	base  string
	token string
}

func newClient(dir layout, port int) (*client, error) {
	ca, err := os.ReadFile(dir.ca())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", dir.ca())
	}
	admin, err := token(dir, "admin")
	if err != nil {
		return nil, err
	}
	return &client{
		http: &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		},
		base:  "https://" + loopback(port),
		token: admin,
	}, nil
}

// do returns the body of a 2xx response. Any other response is a *statusError.
func (c *client) do(ctx context.Context, method, path, accept string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("User-Agent", "controlplane")
	request.Header.Set("Accept", accept)
	request.Header.Set("Content-Type", "application/yaml")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, &statusError{response.StatusCode, method + " " + path, strings.TrimSpace(string(text))}
	}
	return text, nil
}

type statusError struct {
	code          int
	request, text string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d %s", e.request, e.code, e.text[:min(len(e.text), 400)])
}

// probe is a condition of readiness.
type probe struct {
	name  string
	check func(context.Context, *client) error
}

func exists(path string) func(context.Context, *client) error {
	return func(ctx context.Context, c *client) error {
		_, err := c.do(ctx, http.MethodGet, path, "application/json", nil)
		return err
	}
}

// serving must hold before the other components start.
var serving = []probe{{"/readyz", exists("/readyz")}}

// readyProbes returns the probes that follow serving, in order.
func readyProbes(o options) []probe {
	probes := []probe{
		{"namespace default", exists("/api/v1/namespaces/default")},
		{"/openapi/v2", func(ctx context.Context, c *client) error {
			_, err := c.do(ctx, http.MethodGet, "/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", nil)
			return err
		}},
	}
	if o.with[kwok] {
		// These come before the wait for the controllers: kwok works meanwhile.
		probes = append([]probe{
			{"the Node is created", created("/api/v1/nodes", stages.Node)},
			{"the StorageClass is created", created("/apis/storage.k8s.io/v1/storageclasses", stages.StorageClass)},
		}, probes...)
	}
	if o.with[controller] {
		probes = append(probes, probe{"ServiceAccount default in namespace default", exists("/api/v1/namespaces/default/serviceaccounts/default")})
	}
	if o.with[kwok] {
		probes = append(probes, probe{"the Node is ready", nodeReady})
	}
	return probes
}

func created(collection string, object []byte) func(context.Context, *client) error {
	return func(ctx context.Context, c *client) error {
		_, err := c.do(ctx, http.MethodPost, collection, "application/json", object)
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusConflict {
			return nil // an earlier start created it
		}
		return err
	}
}

func nodeReady(ctx context.Context, c *client) error {
	text, err := c.do(ctx, http.MethodGet, "/api/v1/nodes", "application/json", nil)
	if err != nil {
		return err
	}
	var nodes struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal(text, &nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
		}
	}
	return errors.New("no Node has the condition Ready=True")
}

// await repeats each probe until it succeeds. It returns an error if ctx ends or if
// interrupted, which it calls before each try, returns one.
func await(ctx context.Context, c *client, probes []probe, interrupted func() error) error {
	for _, probe := range probes {
		var last error
		for {
			if err := interrupted(); err != nil {
				return err
			}
			if last = probe.check(ctx, c); last == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s: %w (last: %w)", probe.name, context.Cause(ctx), last)
			case <-time.After(probeInterval):
			}
		}
	}
	return nil
}
