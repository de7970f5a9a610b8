// The API over the contract's imports.

package operetta

import (
	"log/slog"
	"runtime"
	"sync"
	"unsafe"
)

//go:wasmimport operetta:controller/objects@0.1.0 get
func importGet(apiVersion, kind string, hasNamespace uint32, namespace, name string, read uint32, result unsafe.Pointer)

//go:wasmimport operetta:controller/objects@0.1.0 list
func importList(arguments, result unsafe.Pointer)

//go:wasmimport operetta:controller/objects@0.1.0 create
func importCreate(apiVersion, kind string, hasNamespace uint32, namespace, object string, dryRun, hasManager uint32, manager string, strict uint32, result unsafe.Pointer)

//go:wasmimport operetta:controller/objects@0.1.0 update
func importUpdate(apiVersion, kind string, hasNamespace uint32, namespace, name, object string, dryRun, hasManager uint32, manager string, strict uint32, result unsafe.Pointer)

//go:wasmimport operetta:controller/objects@0.1.0 update-status
func importUpdateStatus(apiVersion, kind string, hasNamespace uint32, namespace, name, object string, dryRun, hasManager uint32, manager string, strict uint32, result unsafe.Pointer)

//go:wasmimport operetta:controller/objects@0.1.0 patch
func importPatch(arguments, result unsafe.Pointer)

//go:wasmimport operetta:controller/objects@0.1.0 delete
func importDelete(arguments, result unsafe.Pointer)

//go:wasmimport operetta:controller/raw@0.1.0 send
func importSend(method, path, query string, hasType uint32, contentType string, hasAccept uint32, accept string, hasBody uint32, body string, cached uint32, result unsafe.Pointer)

//go:wasmimport operetta:controller/warnings@0.1.0 take
func importTakeWarnings(result unsafe.Pointer)

//go:wasmimport operetta:controller/events@0.1.0 emit
func importEmit(arguments unsafe.Pointer)

//go:wasmimport operetta:controller/log@0.1.0 enabled
func importLogEnabled(level uint32) uint32

//go:wasmimport operetta:controller/log@0.1.0 write
func importLogWrite(level uint32, message string, fields unsafe.Pointer, count uint32)

//go:wasmimport operetta:controller/config@0.1.0 get
func importConfigGet(result unsafe.Pointer)

var (
	// hostLock serializes calls, from lowering to lifting: the scheduler may switch goroutines during lifting.
	hostLock sync.Mutex
	// results is the return area of imports, large enough for all of them. Unlike a stack it does not move.
	results [16]uint32
)

// call runs an import and lifts its result.
func call[T any](invoke func(result unsafe.Pointer), lift func(lifted) T) T {
	hostLock.Lock()
	defer hostLock.Unlock()
	inHost = true
	invoke(unsafe.Pointer(&results))
	inHost = false
	defer resetArena()
	return lift(lifted{unsafe.Pointer(&results)})
}

// outcome is a result<T, types.error>.
type outcome[T any] struct {
	value T
	err   error
}

func (o outcome[T]) get() (T, error) { return o.value, o.err }

func liftObject(at lifted) outcome[[]byte] {
	if at.byte() != 0 {
		return outcome[[]byte]{err: at.skip(4).failure()}
	}
	return outcome[[]byte]{value: at.skip(4).bytes()}
}

// host is the API of a plugin.
type host struct{}

func (host) Get(kind GroupVersionKind, key Key, read Read) ([]byte, error) {
	return call(func(result unsafe.Pointer) {
		importGet(kind.APIVersion, kind.Kind, some(key.Namespace), key.Namespace, key.Name, uint32(read), result)
	}, liftObject).get()
}

func (host) List(kind GroupVersionKind, options ListOptions) (Page, error) {
	if options.Index != "" && options.OwnerUID != "" {
		return Page{}, malformed("list: an index and an owner are mutually exclusive")
	}
	l := newLowered()
	l.kind(kind)
	l.optional(options.Namespace)
	l.optional(options.Labels)
	l.optional(options.Fields)
	switch {
	case options.Index != "":
		l.word(1)
		l.text(options.Index)
		l.text(options.IndexValue)
	case options.OwnerUID != "":
		l.word(2)
		l.text(options.OwnerUID)
		l.text("")
	default:
		l.word(0)
		l.text("")
		l.text("")
	}
	l.word(flag(options.Limit != 0))
	l.word(options.Limit)
	l.optional(options.Continue)
	l.word(flag(options.Live))
	paths := newLowered()
	for _, path := range options.Projection {
		paths.text(path)
	}
	l.word(uint32(uintptr(paths.pointer())))
	l.word(uint32(len(options.Projection)))
	page := call(func(result unsafe.Pointer) { importList(l.pointer(), result) }, func(at lifted) outcome[Page] {
		if at.byte() != 0 {
			return outcome[Page]{err: at.skip(4).failure()}
		}
		at = at.skip(4)
		items := make([][]byte, at.skip(4).word())
		for i := range items {
			items[i] = at.follow().skip(8 * uintptr(i)).bytes()
		}
		return outcome[Page]{value: Page{Items: items, ResourceVersion: at.skip(8).text(), Continue: at.skip(16).optional()}}
	})
	runtime.KeepAlive(l)
	runtime.KeepAlive(paths)
	return page.get()
}

func (host) Create(kind GroupVersionKind, namespace string, object []byte, options WriteOptions) ([]byte, error) {
	return call(func(result unsafe.Pointer) {
		importCreate(kind.APIVersion, kind.Kind, some(namespace), namespace, asText(object),
			flag(options.DryRun), some(options.FieldManager), options.FieldManager, flag(options.Strict), result)
	}, liftObject).get()
}

func (host) Update(kind GroupVersionKind, key Key, object []byte, options WriteOptions) ([]byte, error) {
	return call(func(result unsafe.Pointer) {
		importUpdate(kind.APIVersion, kind.Kind, some(key.Namespace), key.Namespace, key.Name, asText(object),
			flag(options.DryRun), some(options.FieldManager), options.FieldManager, flag(options.Strict), result)
	}, liftObject).get()
}

func (host) UpdateStatus(kind GroupVersionKind, key Key, object []byte, options WriteOptions) ([]byte, error) {
	return call(func(result unsafe.Pointer) {
		importUpdateStatus(kind.APIVersion, kind.Kind, some(key.Namespace), key.Namespace, key.Name, asText(object),
			flag(options.DryRun), some(options.FieldManager), options.FieldManager, flag(options.Strict), result)
	}, liftObject).get()
}

func (host) Patch(kind GroupVersionKind, key Key, patch RawPatch) ([]byte, error) {
	l := newLowered()
	l.kind(kind)
	l.key(key)
	l.optional(patch.Subresource)
	l.word(uint32(patch.Type))
	l.text(string(patch.Body))
	l.word(flag(patch.Force))
	l.word(flag(patch.Options.DryRun))
	l.optional(patch.Options.FieldManager)
	l.word(flag(patch.Options.Strict))
	object := call(func(result unsafe.Pointer) { importPatch(l.pointer(), result) }, liftObject)
	runtime.KeepAlive(l)
	return object.get()
}

func (host) Delete(kind GroupVersionKind, key Key, options DeleteOptions) error {
	var propagation uint32
	switch options.Propagation {
	case "":
	case Background:
		propagation = 0x001
	case Foreground:
		propagation = 0x101
	case Orphan:
		propagation = 0x201
	default:
		return malformed("delete: %q is not a propagation policy; use Background, Foreground or Orphan", options.Propagation)
	}
	l := newLowered()
	l.kind(kind)
	l.key(key)
	l.optional(options.UID)
	l.optional(options.ResourceVersion)
	if options.GracePeriodSeconds == nil {
		l.word(0)
		l.word(0)
	} else {
		l.word(1)
		l.word(*options.GracePeriodSeconds)
	}
	// option<propagation> takes two bytes, dry-run the third.
	l.word(propagation | flag(options.DryRun)<<16)
	failure := call(func(result unsafe.Pointer) { importDelete(l.pointer(), result) }, func(at lifted) error {
		if at.byte() == 0 {
			return nil
		}
		return at.skip(4).failure()
	})
	runtime.KeepAlive(l)
	return failure
}

func (host) Raw(r RawRequest) RawResponse {
	return call(func(result unsafe.Pointer) {
		importSend(r.Method, r.Path, r.Query, some(r.ContentType), r.ContentType, some(r.Accept), r.Accept,
			flag(r.Body != nil), asText(r.Body), flag(r.Cached), result)
	}, func(at lifted) RawResponse {
		return RawResponse{
			Status: int(at.half()), ContentType: at.skip(4).text(), RetryAfter: at.skip(12).seconds(), Body: at.skip(20).bytes(),
		}
	})
}

func (host) TakeWarnings() []string {
	return call(func(result unsafe.Pointer) { importTakeWarnings(result) }, lifted.texts)
}

func (host) Emit(event Event) {
	l := newLowered()
	l.kind(event.Regarding)
	l.key(event.Key)
	l.optional(event.UID)
	l.word(uint32(event.Type))
	l.text(event.Reason)
	l.text(event.Action)
	l.text(event.Note)
	call(func(unsafe.Pointer) { importEmit(l.pointer()) }, func(lifted) struct{} { return struct{}{} })
	runtime.KeepAlive(l)
}

func (host) LogEnabled(level LogLevel) bool {
	hostLock.Lock()
	defer hostLock.Unlock()
	return importLogEnabled(uint32(level)) != 0
}

func (host) Log(level LogLevel, message string, fields []LogField) {
	l := newLowered()
	for _, field := range fields {
		l.text(field.Name)
		l.text(field.Value)
	}
	hostLock.Lock()
	defer hostLock.Unlock()
	importLogWrite(uint32(level), message, l.pointer(), uint32(len(fields)))
	runtime.KeepAlive(l)
}

func (host) Config() []byte {
	return call(func(result unsafe.Pointer) { importConfigGet(result) }, lifted.bytes)
}

// logToHost makes log/slog and log write to the plugin's log.
func logToHost() { slog.SetDefault(slog.New(NewLogHandler(host{}))) }
