package operettatest

import (
	"encoding/json"
	"strings"
	"time"

	"operetta.dev/sdk-go"
)

// Cluster implements the contract's imports. Reconcilers call them through [operetta.Client].
var _ operetta.API = (*Cluster)(nil)

// wireKind returns the server's form of a kind.
func wireKind(kind operetta.GroupVersionKind) map[string]string {
	return map[string]string{"apiVersion": kind.APIVersion, "kind": kind.Kind}
}

// wireKey returns the server's form of a key.
func wireKey(key operetta.Key) map[string]string {
	if key.Namespace == "" {
		return map[string]string{"name": key.Name}
	}
	return map[string]string{"namespace": key.Namespace, "name": key.Name}
}

// wireRead returns the server's form of the source of a read.
func wireRead(live bool) string {
	if live {
		return "live"
	}
	return "cached"
}

// setJSON sets an argument to JSON, or `text` to what is not JSON, which the server rejects as the host does.
func (a arguments) setJSON(name string, text []byte) {
	if json.Valid(text) {
		a[name] = json.RawMessage(text)
	} else {
		a["text"] = string(text)
	}
}

// setSome sets an argument unless it is empty.
func (a arguments) setSome(name, value string) {
	if value != "" {
		a[name] = value
	}
}

// Get returns one object.
func (c *Cluster) Get(kind operetta.GroupVersionKind, key operetta.Key, read operetta.Read) ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.fail(VerbGet); err != nil {
		return nil, err
	}
	return c.call("get", arguments{"kind": wireKind(kind), "key": wireKey(key), "read": wireRead(read == operetta.Live)})
}

// List returns one page.
func (c *Cluster) List(kind operetta.GroupVersionKind, options operetta.ListOptions) (operetta.Page, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.fail(VerbList); err != nil {
		return operetta.Page{}, err
	}
	text, err := c.call("list", arguments{"kind": wireKind(kind), "options": wireListOptions(options)})
	if err != nil {
		return operetta.Page{}, err
	}
	var page struct {
		Items           []json.RawMessage
		ResourceVersion string
		ContinueToken   string
	}
	if err := json.Unmarshal(text, &page); err != nil {
		c.t.Fatalf("the test server's response to list: %v", err)
	}
	items := make([][]byte, len(page.Items))
	for i, item := range page.Items {
		items[i] = item
	}
	return operetta.Page{Items: items, ResourceVersion: page.ResourceVersion, Continue: page.ContinueToken}, nil
}

func wireListOptions(options operetta.ListOptions) arguments {
	wire := arguments{"read": wireRead(options.Live)}
	wire.setSome("namespace", options.Namespace)
	wire.setSome("labels", options.Labels)
	wire.setSome("fields", options.Fields)
	wire.setSome("continueToken", options.Continue)
	if options.Limit > 0 {
		wire["limit"] = options.Limit
	}
	if len(options.Projection) > 0 {
		wire["projection"] = options.Projection
	}
	switch {
	case options.Index != "":
		wire["selection"] = arguments{"type": "by-index", "index": options.Index, "value": options.IndexValue}
	case options.OwnerUID != "":
		wire["selection"] = arguments{"type": "by-owner", "uid": options.OwnerUID}
	}
	return wire
}

// write sends a write, and records it unless it is a dry run.
func (c *Cluster) write(write Write, dryRun bool, call string, arguments arguments) ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.fail(write.Verb); err != nil {
		return nil, err
	}
	stored, err := c.call(call, arguments)
	if err != nil {
		return nil, err
	}
	if write.Key.Name == "" {
		write.Key.Name = nameOf(stored)
	}
	if !dryRun {
		c.writes = append(c.writes, write)
	}
	return stored, nil
}

// nameOf returns the name of an object; empty if it has none.
func nameOf(text []byte) string {
	var object struct{ Metadata struct{ Name string } }
	_ = json.Unmarshal(text, &object)
	return object.Metadata.Name
}

func wireWriteOptions(options operetta.WriteOptions) arguments {
	wire := arguments{"dryRun": options.DryRun, "strict": options.Strict}
	wire.setSome("fieldManager", options.FieldManager)
	return wire
}

// Create creates an object.
func (c *Cluster) Create(kind operetta.GroupVersionKind, namespace string, text []byte, options operetta.WriteOptions) ([]byte, error) {
	arguments := arguments{"kind": wireKind(kind), "options": wireWriteOptions(options)}
	arguments.setSome("namespace", namespace)
	arguments.setJSON("object", text)
	// The API server chooses the name of an object with a generateName.
	return c.write(Write{VerbCreate, kind, operetta.Key{Namespace: namespace}}, options.DryRun, "create", arguments)
}

// Update replaces an object.
func (c *Cluster) Update(kind operetta.GroupVersionKind, key operetta.Key, text []byte, options operetta.WriteOptions) ([]byte, error) {
	return c.replace(Write{VerbUpdate, kind, key}, "update", text, options)
}

// UpdateStatus replaces an object's status.
func (c *Cluster) UpdateStatus(kind operetta.GroupVersionKind, key operetta.Key, text []byte, options operetta.WriteOptions) ([]byte, error) {
	return c.replace(Write{VerbUpdateStatus, kind, key}, "updateStatus", text, options)
}

func (c *Cluster) replace(write Write, call string, text []byte, options operetta.WriteOptions) ([]byte, error) {
	arguments := arguments{"kind": wireKind(write.Kind), "key": wireKey(write.Key), "options": wireWriteOptions(options)}
	arguments.setJSON("object", text)
	return c.write(write, options.DryRun, call, arguments)
}

// Patch patches an object or a subresource of it.
func (c *Cluster) Patch(kind operetta.GroupVersionKind, key operetta.Key, patch operetta.RawPatch) ([]byte, error) {
	arguments := arguments{
		"kind": wireKind(kind), "key": wireKey(key), "type": [...]string{"merge", "json", "apply"}[patch.Type],
		"force": patch.Force, "options": wireWriteOptions(patch.Options),
	}
	arguments.setSome("subresource", patch.Subresource)
	arguments.setJSON("body", patch.Body)
	return c.write(Write{VerbPatch, kind, key}, patch.Options.DryRun, "patch", arguments)
}

// Delete deletes an object, or marks it deleted while it has finalizers.
func (c *Cluster) Delete(kind operetta.GroupVersionKind, key operetta.Key, options operetta.DeleteOptions) error {
	wire := arguments{"dryRun": options.DryRun}
	wire.setSome("uid", options.UID)
	wire.setSome("resourceVersion", options.ResourceVersion)
	wire.setSome("propagation", strings.ToLower(string(options.Propagation)))
	if options.GracePeriodSeconds != nil {
		wire["gracePeriodSeconds"] = *options.GracePeriodSeconds
	}
	arguments := arguments{"kind": wireKind(kind), "key": wireKey(key), "options": wire}
	_, err := c.write(Write{VerbDelete, kind, key}, options.DryRun, "delete", arguments)
	return err
}

// Raw sends an HTTP request to the API server, or to the function of [Cluster.OnRaw].
func (c *Cluster) Raw(request operetta.RawRequest) operetta.RawResponse {
	if c.raw != nil {
		return c.raw(request)
	}
	wire := arguments{"method": request.Method, "path": request.Path, "query": request.Query, "cached": request.Cached}
	wire.setSome("contentType", request.ContentType)
	wire.setSome("accept", request.Accept)
	if request.Body != nil {
		wire["body"] = string(request.Body)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	text, err := c.call("send", arguments{"request": wire})
	var response struct {
		Status            int
		ContentType, Body string
		RetryAfterSeconds int
	}
	if err == nil {
		err = json.Unmarshal(text, &response)
	}
	if err != nil {
		c.t.Fatalf("the test server's response to %s %s: %v", request.Method, request.Path, err)
	}
	return operetta.RawResponse{
		Status: response.Status, ContentType: response.ContentType, Body: []byte(response.Body),
		RetryAfter: time.Duration(response.RetryAfterSeconds) * time.Second,
	}
}

// TakeWarnings returns the API server's warnings about the calls since the last time.
func (c *Cluster) TakeWarnings() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.connection == nil {
		return nil
	}
	taken := c.connection.warnings
	c.connection.warnings = nil
	return taken
}

// Emit records an Event.
func (c *Cluster) Emit(event operetta.Event) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.events = append(c.events, event)
}

// LogEnabled returns true: every level is recorded.
func (c *Cluster) LogEnabled(operetta.LogLevel) bool { return true }

// Log records a line.
func (c *Cluster) Log(level operetta.LogLevel, message string, fields []operetta.LogField) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.logs = append(c.logs, LogLine{level, message, fields})
}

// Config returns the config of [Cluster.SetConfig].
func (c *Cluster) Config() []byte { return c.config }
