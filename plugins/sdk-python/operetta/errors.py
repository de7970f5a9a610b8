"""Why a call or a reconcile failed.

Each variant of the contract's `types.error` is an exception class of its own under `ApiError`. Whatever exception
leaves a reconciler is retried with the rate limiter's delay, except `TerminalError`, which is reported and not retried
until the object changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional


class Cause(NamedTuple):
    """Which field the API server rejected, and why (metav1.StatusCause)."""

    reason: str
    message: str
    field: str


class Status(NamedTuple):
    """The API server's metav1.Status of a failed call."""

    code: int
    """The HTTP status code, e.g. 409."""
    reason: str
    """metav1.StatusReason, e.g. `Conflict`; empty when the server named none."""
    message: str
    """The message for people."""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: Optional[int] = None


class ApiError(Exception):
    """A call to the API server that failed. Catch a subclass to branch on why."""

    variant = "other"
    """The contract's name of the variant."""
    _code, _reason = 500, ""

    def __init__(self, status: Status | str, **fields: Any) -> None:
        """With a text only, as tests make them, code and reason are those usual for the variant."""
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
        """metav1.StatusReason; may be empty."""
        return self.status.reason

    @property
    def message(self) -> str:
        """The message for people."""
        return self.status.message

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The rejected fields; empty when the server named none."""
        return self.status.causes

    @property
    def retry_after_seconds(self) -> Optional[int]:
        """When to come back, if the server said so."""
        return self.status.retry_after_seconds

    def __str__(self) -> str:
        text = self.status.message or f"{self.variant} ({self.status.code} {self.status.reason})"
        for cause in self.status.causes:
            if cause.message not in text:
                text += f"; {cause.field}: {cause.message}"
        return text


class NotFound(ApiError):
    """404: the object does not exist, or its namespace, or its kind."""

    variant, _code, _reason = "not-found", 404, "NotFound"


class AlreadyExists(ApiError):
    """409: an object of that name exists."""

    variant, _code, _reason = "already-exists", 409, "AlreadyExists"


class Conflict(ApiError):
    """409: the resourceVersion is stale, or another manager owns a field. Read again, then retry."""

    variant, _code, _reason = "conflict", 409, "Conflict"


class Invalid(ApiError):
    """422: the object was rejected; `causes` says by which fields."""

    variant, _code, _reason = "invalid", 422, "Invalid"


class BadRequest(ApiError):
    """400, and requests that the host can tell to be malformed."""

    variant, _code, _reason = "bad-request", 400, "BadRequest"


class Forbidden(ApiError):
    """401 or 403: the plugin's ServiceAccount may not do this, or the host's limits forbid it."""

    variant, _code, _reason = "forbidden", 403, "Forbidden"


class Expired(ApiError):
    """410: a continue token or resourceVersion is too old. Begin the list again."""

    variant, _code, _reason = "expired", 410, "Expired"


class TooManyRequests(ApiError):
    """429: `retry_after_seconds` says when to come back."""

    variant, _code, _reason = "too-many-requests", 429, "TooManyRequests"


class Unavailable(ApiError):
    """500, 502, 503, or no connection: the API server cannot answer now."""

    variant, _code, _reason = "unavailable", 503, "ServiceUnavailable"


class TimedOut(ApiError):
    """504, or the host's own deadline on one call."""

    variant, _code, _reason = "timed-out", 504, "Timeout"


class OtherApiError(ApiError):
    """Any other failure; `code` and `reason` tell which."""


class TerminalError(Exception):
    """Raised by a reconciler: report this, and do not try again until the object changes."""


class AlreadyOwned(Exception):
    """The child has a controlling owner already, and it is another one."""
