"""Errors of API calls and of reconciles.

Each variant of the contract's `types.error` has its own subclass of `ApiError`. An exception that leaves a reconciler
is a failure: the host retries the key after the rate limiter's delay. `TerminalError` is reported and not retried until
the object changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional


class Cause(NamedTuple):
    """A field that the API server rejected (metav1.StatusCause)."""

    reason: str
    message: str
    field: str


class Status(NamedTuple):
    """The API server's metav1.Status of a failed call."""

    code: int
    """The HTTP status code, e.g. 409."""
    reason: str
    """The metav1.StatusReason, e.g. `Conflict`; empty if the server sent none."""
    message: str
    """The message for people."""
    causes: tuple[Cause, ...] = ()
    """The rejected fields."""
    retry_after_seconds: Optional[int] = None
    """The delay that the server asked for, if any."""


class ApiError(Exception):
    """A failed call to the API server. Catch a subclass to handle one cause."""

    variant = "other"
    """The variant's name in the contract."""
    _code = 500
    _reason = ""

    def __init__(self, status: Status | str, **fields: Any) -> None:
        """Builds an error from a Status, or from a message, as tests do, with the variant's usual code and reason."""
        if isinstance(status, str):
            status = Status(**{"code": self._code, "reason": self._reason, "message": status, **fields})
        super().__init__(status)
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The metav1.StatusReason; may be empty."""
        return self.status.reason

    @property
    def message(self) -> str:
        """The message for people."""
        return self.status.message

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The rejected fields; empty if the server named none."""
        return self.status.causes

    @property
    def retry_after_seconds(self) -> Optional[int]:
        """The delay that the server asked for, if any."""
        return self.status.retry_after_seconds

    def __str__(self) -> str:
        text = self.status.message or f"{self.variant} ({self.status.code} {self.status.reason})"
        for cause in self.status.causes:
            if cause.message not in text:
                text += f"; {cause.field}: {cause.message}"
        return text


class NotFoundError(ApiError):
    """404: the object, its namespace or its kind does not exist."""

    variant = "not-found"
    _code = 404
    _reason = "NotFound"


class AlreadyExistsError(ApiError):
    """409: an object of this name exists."""

    variant = "already-exists"
    _code = 409
    _reason = "AlreadyExists"


class ConflictError(ApiError):
    """409: the resourceVersion is stale, or another manager owns a field. Read again, then retry."""

    variant = "conflict"
    _code = 409
    _reason = "Conflict"


class InvalidError(ApiError):
    """422: the object is invalid; `causes` names the fields."""

    variant = "invalid"
    _code = 422
    _reason = "Invalid"


class BadRequestError(ApiError):
    """400, and requests that the host finds malformed."""

    variant = "bad-request"
    _code = 400
    _reason = "BadRequest"


class ForbiddenError(ApiError):
    """401 or 403: the ServiceAccount lacks the permission, or the host's limits forbid the call."""

    variant = "forbidden"
    _code = 403
    _reason = "Forbidden"


class ExpiredError(ApiError):
    """410: a continue token or resourceVersion is too old. Start the list again."""

    variant = "expired"
    _code = 410
    _reason = "Expired"


class TooManyRequestsError(ApiError):
    """429: `retry_after_seconds` is the delay to wait."""

    variant = "too-many-requests"
    _code = 429
    _reason = "TooManyRequests"


class UnavailableError(ApiError):
    """500, 502, 503, or no connection: the API server is unavailable."""

    variant = "unavailable"
    _code = 503
    _reason = "ServiceUnavailable"


class TimedOutError(ApiError):
    """504, or the host's own deadline for one call."""

    variant = "timed-out"
    _code = 504
    _reason = "Timeout"


class OtherApiError(ApiError):
    """Any other failure; see `code` and `reason`."""


class TerminalError(Exception):
    """A failure that is reported and not retried until the object changes (kopf's `PermanentError`)."""


class AlreadyOwnedError(Exception):
    """Another object is the child's controlling owner already."""
