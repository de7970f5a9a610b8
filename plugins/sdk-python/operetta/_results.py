"""The request of a reconcile, and the results of a reconcile and of calls to the API server."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Optional, Union

from ._json import decode
from ._kind import Key
from ._object import Object

_MAX_MS = 2**32 - 1


class Request(NamedTuple):
    """The key to reconcile. It is never an event: the object may have been deleted."""

    controller: str
    """The controller's name."""
    key: Key
    """The object's key; its kind is the controller's."""
    retries: int = 0
    """The number of failures in a row for this key: 0 on the first attempt."""
    reconcile_id: str = ""
    """A unique id of this reconcile, as in logs and traces."""


class Requeue(NamedTuple):
    """The result that reconciles the key again. `requeue` builds one."""

    after_ms: Optional[int] = None
    """The delay in milliseconds; None takes the rate limiter's delay."""


def requeue(after: Union[timedelta, float, None] = None) -> Requeue:
    """Returns the result that reconciles the key again.

    Args:
        after: The delay in seconds, or as a timedelta; rounded up to a millisecond, at most 49 days. None takes the
            rate limiter's delay, which grows with each requeue.

    Raises:
        ValueError: The delay is negative.
    """
    if after is None:
        return Requeue()
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not seconds >= 0:
        raise ValueError(f"requeue(after={after!r}): the delay must not be negative")
    # Rounds up, so the key never comes back early.
    return Requeue(int(min(-(-seconds * 1000 // 1), _MAX_MS)))


class OperationResult(StrEnum):
    """The write that `Context.create_or_update` made."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Page(NamedTuple):
    """One page of a list."""

    items: list[Object]
    """The objects; cached reads are sorted by namespace, then name."""
    resource_version: str
    """The collection's resourceVersion."""
    continue_token: Optional[str]
    """The token of the next page; None on the last page."""


class Response(NamedTuple):
    """The response to a raw request."""

    status: int
    """The HTTP status code."""
    content_type: str
    retry_after_seconds: Optional[int]
    """The value of Retry-After, if the server sent one."""
    text: str
    """The body."""

    def json(self) -> Any:
        """Returns the decoded body.

        Raises:
            ValueError: The body is not JSON.
        """
        return decode(self.text)
