"""What a reconciler is asked, and what it answers when all went well."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple, Optional, Union

from ._kind import Key

_MAX_MS = 2**32 - 1


class Request(NamedTuple):
    """A key that is to be brought to its desired state. It is never an event: the object may be gone."""

    controller: str
    """The controller's name."""
    key: Key
    """The object's key; its kind is the one of the controller."""
    retries: int = 0
    """How often in a row reconciling this key has failed: 0 the first time."""
    reconcile_id: str = ""
    """Unique for each reconcile, as in logs and traces."""


class Requeue(NamedTuple):
    """The answer that reconciles the key again; `requeue` makes one."""

    after_ms: Optional[int] = None
    """After this many milliseconds; None: after the rate limiter's delay."""


def requeue(after: Union[timedelta, float, None] = None) -> Requeue:
    """Reconcile the key again: after a time (seconds, or a timedelta; to the millisecond, at most 49 days), or, without
    one, after the rate limiter's delay, which grows each time.

    Raises `ValueError` if the time is negative.
    """
    if after is None:
        return Requeue()
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not seconds >= 0:
        raise ValueError(f"requeue(after={after!r}): the time must not be negative")
    # Rounded up: never earlier than asked.
    return Requeue(int(min(-(-seconds * 1000 // 1), _MAX_MS)))
