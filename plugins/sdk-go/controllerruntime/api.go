package controllerruntime

import (
	"fmt"
	"strings"
	"sync/atomic"

	"operetta.dev/sdk-go"
)

// held holds the API of the current reconcile; nil before the first one.
type held struct{ current atomic.Pointer[operetta.API] }

func (h *held) use(api operetta.API) { h.current.Store(&api) }

// get returns the API. Before the first reconcile it returns one that rejects every call.
func (h *held) get() operetta.API {
	if api := h.current.Load(); api != nil {
		return *api
	}
	return &noAPI{reason: "the client cannot be used in the setup: use it in Reconcile"}
}

// noAPI rejects every call.
type noAPI struct {
	// reason is the message of the errors.
	reason string
	// refused is the first rejected call, e.g. `get Pod ns/a`; empty if there was none.
	refused string
}

var _ operetta.API = (*noAPI)(nil)

func (n *noAPI) refuse(call string, of ...any) error {
	if n.refused == "" {
		n.refused = strings.TrimSpace(fmt.Sprintln(append([]any{call}, of...)...))
	}
	return operetta.NewAPIError(operetta.Forbidden, n.reason)
}

func (n *noAPI) Get(kind operetta.GroupVersionKind, key operetta.Key, _ operetta.Read) ([]byte, error) {
	return nil, n.refuse("get", kind.Kind, key)
}

func (n *noAPI) List(kind operetta.GroupVersionKind, _ operetta.ListOptions) (operetta.Page, error) {
	return operetta.Page{}, n.refuse("list", kind.Kind)
}

func (n *noAPI) Create(kind operetta.GroupVersionKind, namespace string, _ []byte, _ operetta.WriteOptions) ([]byte, error) {
	return nil, n.refuse("create", kind.Kind, namespace)
}

func (n *noAPI) Update(kind operetta.GroupVersionKind, key operetta.Key, _ []byte, _ operetta.WriteOptions) ([]byte, error) {
	return nil, n.refuse("update", kind.Kind, key)
}

func (n *noAPI) UpdateStatus(kind operetta.GroupVersionKind, key operetta.Key, _ []byte, _ operetta.WriteOptions) ([]byte, error) {
	return nil, n.refuse("update-status", kind.Kind, key)
}

func (n *noAPI) Patch(kind operetta.GroupVersionKind, key operetta.Key, _ operetta.RawPatch) ([]byte, error) {
	return nil, n.refuse("patch", kind.Kind, key)
}

func (n *noAPI) Delete(kind operetta.GroupVersionKind, key operetta.Key, _ operetta.DeleteOptions) error {
	return n.refuse("delete", kind.Kind, key)
}

func (n *noAPI) Raw(request operetta.RawRequest) operetta.RawResponse {
	_ = n.refuse(request.Method, request.Path)
	return operetta.RawResponse{Status: 403, ContentType: "application/json", Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":%q}`, n.reason)}
}

func (*noAPI) TakeWarnings() []string                             { return nil }
func (*noAPI) Emit(operetta.Event)                                {}
func (*noAPI) LogEnabled(operetta.LogLevel) bool                  { return false }
func (*noAPI) Log(operetta.LogLevel, string, []operetta.LogField) {}
func (*noAPI) Config() []byte                                     { return []byte("{}") }

// mappingAPI is the API of a mapping: the host's log and configuration, and no calls of the API server. The host rejects
// these, too; this one remembers them.
type mappingAPI struct {
	noAPI
	host operetta.API
}

func (m *mappingAPI) Emit(event operetta.Event)               { m.host.Emit(event) }
func (m *mappingAPI) LogEnabled(level operetta.LogLevel) bool { return m.host.LogEnabled(level) }
func (m *mappingAPI) Config() []byte                          { return m.host.Config() }
func (m *mappingAPI) Log(level operetta.LogLevel, message string, fields []operetta.LogField) {
	m.host.Log(level, message, fields)
}
