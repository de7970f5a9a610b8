// The canonical ABI of the component model, as far as the contract needs it. Arguments are lowered to words, and
// results are lifted from memory. The fields of records are in the order of wit/controller.wit.

package operetta

import (
	"strings"
	"time"
	"unsafe"
)

// lowered is a record in memory, word by word. keep holds the values that its words point to.
type lowered struct {
	words []uint32
	keep  []string
}

func (l *lowered) text(text string) {
	l.keep = append(l.keep, text)
	l.words = append(l.words, uint32(uintptr(unsafe.Pointer(unsafe.StringData(text)))), uint32(len(text)))
}

func (l *lowered) word(word uint32) { l.words = append(l.words, word) }

// optional lowers an option<string>; none if empty.
func (l *lowered) optional(text string) {
	l.word(some(text))
	l.text(text)
}

func (l *lowered) kind(kind GroupVersionKind) {
	l.text(kind.APIVersion)
	l.text(kind.Kind)
}

func (l *lowered) key(key Key) {
	l.optional(key.Namespace)
	l.text(key.Name)
}

func (l *lowered) pointer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(l.words)) }

// sink makes lowered values escape to the heap, where their addresses do not change.
var sink *lowered

func newLowered() *lowered {
	l := &lowered{words: make([]uint32, 0, 32)}
	sink = l
	return l
}

func some(text string) uint32 {
	if text == "" {
		return 0
	}
	return 1
}

func flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}

// asText returns bytes as a string without a copy. The bytes must not change while it is used.
func asText(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }

// lifted is an address in memory that the host wrote.
type lifted struct{ at unsafe.Pointer }

func (l lifted) skip(bytes uintptr) lifted { return lifted{unsafe.Add(l.at, bytes)} }
func (l lifted) byte() byte                { return *(*byte)(l.at) }
func (l lifted) half() uint16              { return *(*uint16)(l.at) }
func (l lifted) word() uint32              { return *(*uint32)(l.at) }
func (l lifted) follow() lifted            { return lifted{address(l.word())} }

// address turns a word into a pointer to memory outside of the Go heap.
//
//go:nosplit
func address(word uint32) unsafe.Pointer {
	at := uintptr(word)
	return *(*unsafe.Pointer)(unsafe.Pointer(&at))
}

func (l lifted) text() string {
	return strings.Clone(unsafe.String((*byte)(l.follow().at), l.skip(4).word()))
}

func (l lifted) bytes() []byte {
	return append([]byte{}, unsafe.Slice((*byte)(l.follow().at), l.skip(4).word())...)
}

// texts lifts a list<string>; nil if it is empty.
func (l lifted) texts() []string {
	var texts []string
	text, count := l.follow(), l.skip(4).word()
	for range count {
		texts = append(texts, text.text())
		text = text.skip(8)
	}
	return texts
}

// optional lifts an option<string>.
func (l lifted) optional() string {
	if l.byte() == 0 {
		return ""
	}
	return l.skip(4).text()
}

// seconds lifts an option<u32> of seconds.
func (l lifted) seconds() time.Duration {
	if l.byte() == 0 {
		return 0
	}
	return time.Duration(l.skip(4).word()) * time.Second
}

// optionalBytes lifts an option<string>; nil for none.
func (l lifted) optionalBytes() []byte {
	if l.byte() == 0 {
		return nil
	}
	return l.skip(4).bytes()
}

// mapEvent lifts a mapper.event.
func (l lifted) mapEvent() MapEvent {
	return MapEvent{
		Controller: l.text(),
		Kind:       GroupVersionKind{APIVersion: l.skip(8).text(), Kind: l.skip(16).text()},
		Key:        Key{Namespace: l.skip(24).optional(), Name: l.skip(36).text()},
		Change:     Change(l.skip(44).byte()),
		Object:     l.skip(48).bytes(),
		Old:        l.skip(56).optionalBytes(),
	}
}

// failure lifts a types.error.
func (l lifted) failure() *APIError {
	status := l.skip(4)
	failure := &APIError{Kind: ErrorKind(l.byte()), Status: Status{
		Code: int(status.half()), Reason: status.skip(4).text(), Message: status.skip(12).text(),
		RetryAfter: status.skip(28).seconds(),
	}}
	cause, count := status.skip(20).follow(), status.skip(24).word()
	for range count {
		failure.Status.Causes = append(failure.Status.Causes, Cause{
			Reason: cause.text(), Message: cause.skip(8).text(), Field: cause.skip(16).text(),
		})
		cause = cause.skip(24)
	}
	return failure
}
