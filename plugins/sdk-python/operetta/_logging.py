"""The handler for Python's `logging` that writes to the plugin's log.

The records of every logger appear in `operetta logs PLUGIN`, with `extra=` as fields. An exception's traceback follows
the message.
"""

from __future__ import annotations

import linecache
import logging
import sys
import traceback
from types import TracebackType
from typing import Any, Callable, Iterable, Optional

Fields = list[tuple[str, str]]

# The attributes of every record; the others come from `extra=`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Tracebacks omit the frames of these files.
_SDK = __file__.rpartition("/")[0] + "/"
# The folders of the author's code in the component.
roots: list[str] = []


def level_name(level: int) -> str:
    """Returns the contract's name of a logging level."""
    if level >= logging.ERROR:
        return "error"
    if level >= logging.WARNING:
        return "warn"
    if level >= logging.INFO:
        return "info"
    return "debug" if level >= logging.DEBUG else "trace"


class HostHandler(logging.Handler):
    """Passes the records of enabled levels to `write(level, message, fields)`."""

    def __init__(self, enabled: Callable[[str], bool], write: Callable[[str, str, Fields], None]) -> None:
        super().__init__()
        self._enabled, self._write = enabled, write
        self._known: dict[str, bool] = {}

    def start(self) -> None:
        """Resets the enabled levels at the start of a reconcile: the host's level may have changed."""
        self._known.clear()
        logging.root.setLevel(1)

    def emit(self, record: logging.LogRecord) -> None:
        level = level_name(record.levelno)
        kept = self._known.get(level)
        if kept is None:
            kept = self._known[level] = self._enabled(level)
            if not kept and record.levelno >= logging.root.level:
                # From now on the loggers drop records of this level themselves.
                above = (10, 20, 30, 40, 51)[("trace", "debug", "info", "warn", "error").index(level)]
                logging.root.setLevel(above)
        if not kept:
            return
        try:
            message = record.getMessage()
        except Exception as error:
            message = f"{record.msg!r} % {record.args!r}: {type(error).__name__}: {error}"
        if record.exc_info and record.exc_info[1] is not None:
            message = f"{message}\n{stack(record.exc_info[1])}"
        if record.stack_info:
            message = f"{message}\n{record.stack_info}"
        extra = [(name, str(value)) for name, value in vars(record).items() if name not in _OWN]
        if record.name != "root":
            extra.append(("logger", record.name))
        self._write(level, message, extra)


def where(error: BaseException) -> str:
    """Returns ` at FILE:LINE in FUNCTION` for the author's code that raised; empty without a traceback."""
    frames = _frames(error.__traceback__)
    if not frames:
        return ""
    last = next((frame for frame in reversed(frames) if not _is_library(frame[0])), frames[-1])
    return f" at {_short(last[0])}:{last[1]} in {last[2]}"


def stack(error: BaseException) -> str:
    """Returns the exception with its traceback and causes as Python prints them, without the SDK's outer frames."""
    return "".join(_chain(error, set())).rstrip("\n")


def _chain(error: BaseException, seen: set[int]) -> Iterable[str]:
    seen.add(id(error))
    cause, link = error.__cause__, "The above exception was the direct cause of the following exception:"
    if cause is None and not error.__suppress_context__:
        cause, link = error.__context__, "During handling of the above exception, another exception occurred:"
    if cause is not None and id(cause) not in seen:
        yield from _chain(cause, seen)
        yield f"\n{link}\n\n"
    frames = _frames(error.__traceback__)
    if frames:
        yield "Traceback (most recent call last):\n"
        shown = frames if len(frames) <= 40 else [*frames[:20], *frames[-20:]]
        for at, (file, line, function) in enumerate(shown):
            if len(shown) < len(frames) and at == 20:
                yield f"  … {len(frames) - 40} more frames …\n"
            yield f'  File "{_short(file)}", line {line}, in {function}\n'
            source = linecache.getline(file, line).strip()
            if source:
                yield f"    {source}\n"
    yield from traceback.format_exception_only(type(error), error)


def _frames(trace: Optional[TracebackType]) -> list[tuple[str, int, str]]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno or 0, code.co_qualname if _HAS_QUALNAME else code.co_name))
        trace = trace.tb_next
    # Omits the SDK's frames outside the author's code, and keeps those that the author's code called.
    while len(frames) > 1 and frames[0][0].startswith(_SDK):
        frames.pop(0)
    return frames


_HAS_QUALNAME = sys.version_info >= (3, 11)


def _is_library(file: str) -> bool:
    return file.startswith(_SDK) or file.startswith("<") or (bool(roots) and not file.startswith(tuple(roots)))


def _short(file: str) -> str:
    for root in roots:
        if file.startswith(root):
            return file[len(root) :]
    return file


def keep_sources(modules: Iterable[Any]) -> None:
    """Caches the source lines of modules at the build. Tracebacks need them, and a running component has no files."""
    for module in modules:
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        try:
            with open(file, encoding="utf-8") as source:
                text = source.read()
        except OSError:
            continue
        # An entry without a modification time is never checked against the file.
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
