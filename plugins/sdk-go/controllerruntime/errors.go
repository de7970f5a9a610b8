package controllerruntime

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"operetta.dev/sdk-go"
)

// reasons has the default reason of each variant, for a Status without a reason.
var reasons = map[operetta.ErrorKind]metav1.StatusReason{
	operetta.NotFound:        metav1.StatusReasonNotFound,
	operetta.AlreadyExists:   metav1.StatusReasonAlreadyExists,
	operetta.Conflict:        metav1.StatusReasonConflict,
	operetta.Invalid:         metav1.StatusReasonInvalid,
	operetta.BadRequest:      metav1.StatusReasonBadRequest,
	operetta.Forbidden:       metav1.StatusReasonForbidden,
	operetta.Expired:         metav1.StatusReasonExpired,
	operetta.TooManyRequests: metav1.StatusReasonTooManyRequests,
	operetta.Unavailable:     metav1.StatusReasonServiceUnavailable,
	operetta.TimedOut:        metav1.StatusReasonTimeout,
}

// statusError converts the SDK's error to apimachinery's *StatusError, with the whole Status.
func statusError(of target, err error) error {
	var api *operetta.APIError
	if !errors.As(err, &api) {
		return err
	}
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: int32(api.Status.Code), Reason: metav1.StatusReason(api.Status.Reason),
		Message: api.Status.Message,
		Details: &metav1.StatusDetails{
			Group: of.Group, Kind: of.Kind, Name: of.key.Name,
			RetryAfterSeconds: int32(api.Status.RetryAfter / time.Second),
		},
	}
	if status.Reason == "" {
		status.Reason = reasons[api.Kind]
	}
	for _, cause := range api.Status.Causes {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(cause.Reason), Message: cause.Message, Field: cause.Field,
		})
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// responseError converts a raw response with an error status to a *StatusError.
func responseError(response operetta.RawResponse) error {
	var status metav1.Status
	if err := json.Unmarshal(response.Body, &status); err == nil && status.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(response.Status), Message: http.StatusText(response.Status),
	}}
}
