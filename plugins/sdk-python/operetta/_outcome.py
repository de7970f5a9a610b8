"""What becomes of a reconcile: the one place where exceptions turn into answers for the host."""

from __future__ import annotations

import logging
from typing import NamedTuple, Optional

from . import _logging
from ._context import Context
from ._plugin import Plugin
from ._results import Requeue
from .errors import TerminalError

_log = logging.getLogger("operetta")
# The host keeps a failure's text in the Plugin's status.
_LONGEST = 2000


class Failure(NamedTuple):
    """A reconcile that did not work, and whether it is worth trying again."""

    text: str
    terminal: bool


def run(plugin: Plugin, ctx: Context) -> tuple[Optional[Requeue], Optional[Failure]]:
    """Reconciles, and lets no exception out: its traceback goes to the log, its text into the failure."""
    try:
        return plugin.reconcile(ctx), None
    except TerminalError as error:
        return None, _failure(error, True)
    except BaseException as error:  # sys.exit() among them: an instance that exits says nothing
        return None, _failure(error, False)


def _text(error: BaseException) -> str:
    """`TYPE: MESSAGE at FILE:LINE in FUNCTION`; a TerminalError's message alone."""
    try:
        message = str(error)
    except Exception:  # a failure whose text cannot be made is a failure all the same
        message = ""
    if isinstance(error, TerminalError) and message:
        return message[:_LONGEST]
    name = type(error).__name__
    return f"{name}: {message[:_LONGEST]}{_logging.where(error)}" if message else f"{name}{_logging.where(error)}"


def _failure(error: BaseException, terminal: bool) -> Failure:
    """The failure, after the log has its stack; the host logs the failure's text itself."""
    text = _text(error)
    try:
        _log.error("%s", text, exc_info=error)
    except Exception:  # nothing may hide the failure itself
        _log.error("%s", text)
    return Failure(text, terminal)
