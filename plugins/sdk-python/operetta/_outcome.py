"""The outcome of a reconcile or a mapping: the one place that turns exceptions into failures for the host."""

from __future__ import annotations

import logging
from typing import NamedTuple, Optional

from . import _logging
from ._context import Context
from ._kind import Key
from ._mapping import MapEvent
from ._plugin import Plugin
from ._results import Requeue
from .errors import TerminalError

_log = logging.getLogger("operetta")
# The host keeps a failure's message in the Plugin's status.
_MAX_MESSAGE = 2000


class Failure(NamedTuple):
    """A failed reconcile or mapping."""

    message: str
    terminal: bool
    """True if the host must not retry the key until the object changes."""


def run(plugin: Plugin, ctx: Context) -> tuple[Optional[Requeue], Optional[Failure]]:
    """Runs the reconciler and catches every exception: logs its traceback and returns its message as the failure."""
    try:
        return plugin.reconcile(ctx), None
    except TerminalError as error:
        return None, failure_of(error, terminal=True)
    except BaseException as error:  # includes SystemExit: an instance that exits reports nothing
        return None, failure_of(error)


def run_mapping(plugin: Plugin, event: MapEvent) -> tuple[list[Key], Optional[Failure]]:
    """Maps an event and catches every exception, as `run` does. The host retries each failure."""
    try:
        return plugin.map(event), None
    except BaseException as error:
        return [], failure_of(error)


def _message(error: BaseException) -> str:
    """Returns `TYPE: MESSAGE at FILE:LINE in FUNCTION`, or the message alone for a TerminalError."""
    try:
        message = str(error)
    except Exception:  # the exception's own __str__ may fail
        message = ""
    if isinstance(error, TerminalError) and message:
        return message[:_MAX_MESSAGE]
    name = type(error).__name__
    return f"{name}: {message[:_MAX_MESSAGE]}{_logging.where(error)}" if message else f"{name}{_logging.where(error)}"


def failure_of(error: BaseException, terminal: bool = False) -> Failure:
    """Logs the traceback and returns the failure. The host logs the failure's message."""
    message = _message(error)
    try:
        _log.error("%s", message, exc_info=error)
    except Exception:  # a traceback that cannot be formatted must not hide the failure
        _log.error("%s", message)
    return Failure(message, terminal)
