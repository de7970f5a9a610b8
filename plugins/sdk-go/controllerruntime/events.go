package controllerruntime

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"

	"operetta.dev/sdk-go"
)

// eventRecorder is client-go's record.EventRecorder over the host's events.
type eventRecorder struct {
	api    *held
	scheme *runtime.Scheme
}

func (r eventRecorder) emit(object runtime.Object, eventType, reason, action, note string) {
	of, err := reference.GetReference(r.scheme, object)
	if err != nil {
		newLoggerOf(r.api).Error(err, "An event names no object", "reason", reason, "message", note)
		return
	}
	kind := operetta.Normal
	if eventType == corev1.EventTypeWarning {
		kind = operetta.Warning
	}
	r.api.get().Emit(operetta.Event{
		Regarding: operetta.GVK(of.APIVersion, of.Kind), Key: operetta.Key{Namespace: of.Namespace, Name: of.Name},
		UID: string(of.UID), Type: kind, Reason: reason, Action: action, Note: note,
	})
}

func (r eventRecorder) Event(object runtime.Object, eventType, reason, message string) {
	r.emit(object, eventType, reason, "", message)
}

func (r eventRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.emit(object, eventType, reason, "", fmt.Sprintf(format, args...))
}

// AnnotatedEventf drops the annotations: the host's events have none.
func (r eventRecorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

// newEventRecorder is client-go's events.EventRecorder for events.k8s.io. It drops the related object.
type newEventRecorder struct{ eventRecorder }

func (r newEventRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.emit(regarding, eventType, reason, action, fmt.Sprintf(note, args...))
}

func (r newEventRecorder) AnnotatedEventf(regarding, related runtime.Object, _ map[string]string, eventType, reason, action, note string, args ...any) {
	r.Eventf(regarding, related, eventType, reason, action, note, args...)
}
