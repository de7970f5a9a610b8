package controllerruntime

import (
	"sync/atomic"

	"operetta.dev/sdk-go"
)

// held holds the API of the current reconcile; nil before the first one.
type held struct{ current atomic.Pointer[operetta.API] }

func (h *held) use(api operetta.API) { h.current.Store(&api) }

// get returns the API. Before the first reconcile it returns noAPI.
func (h *held) get() operetta.API {
	if api := h.current.Load(); api != nil {
		return *api
	}
	return noAPI{}
}

// noAPI is the API before the first reconcile. It rejects every call.
type noAPI struct{}

var _ operetta.API = noAPI{}

func refused() error {
	return operetta.NewAPIError(operetta.Forbidden, "the client cannot be used in the setup: use it in Reconcile")
}

func (noAPI) Get(operetta.GroupVersionKind, operetta.Key, operetta.Read) ([]byte, error) {
	return nil, refused()
}

func (noAPI) List(operetta.GroupVersionKind, operetta.ListOptions) (operetta.Page, error) {
	return operetta.Page{}, refused()
}

func (noAPI) Create(operetta.GroupVersionKind, string, []byte, operetta.WriteOptions) ([]byte, error) {
	return nil, refused()
}

func (noAPI) Update(operetta.GroupVersionKind, operetta.Key, []byte, operetta.WriteOptions) ([]byte, error) {
	return nil, refused()
}

func (noAPI) UpdateStatus(operetta.GroupVersionKind, operetta.Key, []byte, operetta.WriteOptions) ([]byte, error) {
	return nil, refused()
}

func (noAPI) Patch(operetta.GroupVersionKind, operetta.Key, operetta.RawPatch) ([]byte, error) {
	return nil, refused()
}

func (noAPI) Delete(operetta.GroupVersionKind, operetta.Key, operetta.DeleteOptions) error {
	return refused()
}

func (noAPI) Raw(operetta.RawRequest) operetta.RawResponse {
	return operetta.RawResponse{Status: 403, ContentType: "application/json", Body: []byte(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden",` +
			`"message":"the client cannot be used in the setup: use it in Reconcile"}`)}
}

func (noAPI) Emit(operetta.Event)                                {}
func (noAPI) LogEnabled(operetta.LogLevel) bool                  { return false }
func (noAPI) Log(operetta.LogLevel, string, []operetta.LogField) {}
func (noAPI) Config() []byte                                     { return []byte("{}") }
