"""Merge patches (RFC 7386) and JSON patches (RFC 6902)."""

from __future__ import annotations

from typing import Any

from .._object import Object, wrap
from ..errors import BadRequestError, InvalidError


def merge(target: Any, patch: Any) -> Any:
    """Applies a merge patch and returns the result. The target may be changed in place."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = Object()
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge(target.get(name), value)
    return target


def json_patch(target: Any, operations: Any) -> Any:
    """Applies a JSON patch and returns the result. The target may be changed in place.

    Raises:
        InvalidError: An operation cannot be applied.
        BadRequestError: The patch is malformed.
    """
    if not isinstance(operations, list):
        raise BadRequestError("a JSON patch is an array of operations")
    holder = Object(root=target)
    for at, operation in enumerate(operations):
        try:
            _apply(holder, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise InvalidError(f"cannot apply operation {at} of the JSON patch: {operation}: {error}") from None
    return holder["root"]


def _apply(holder: Object, operation: Any) -> None:
    if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
        raise BadRequestError(f"{operation!r} is not a JSON patch operation: it needs op and path")
    kind = operation["op"]
    parent, last = _resolve(holder, operation["path"])
    if kind == "test":
        if _read(parent, last) != operation["value"]:
            raise ValueError("the value differs")
    elif kind == "add":
        _add(parent, last, operation["value"])
    elif kind == "replace":
        _read(parent, last)
        parent[_index(parent, last)] = operation["value"]
    elif kind == "remove":
        _read(parent, last)
        del parent[_index(parent, last)]
    elif kind in ("copy", "move"):
        source, name = _resolve(holder, operation["from"])
        value = _copied(_read(source, name))
        if kind == "move":
            del source[_index(source, name)]
        parent, last = _resolve(holder, operation["path"])
        _add(parent, last, value)
    else:
        raise BadRequestError(f"{kind!r} is not an operation of JSON patch")


def _copied(value: Any) -> Any:
    return Object(value=value).copy()["value"]


def _resolve(holder: Object, path: str) -> tuple[Any, str]:
    """Resolves a JSON pointer to a container and the name or position in it."""
    if path and not path.startswith("/"):
        raise ValueError(f"{path!r} is not a JSON pointer")
    steps = ["root", *(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])]
    parent: Any = holder
    for step in steps[:-1]:
        parent = _read(parent, step)
    return parent, steps[-1]


def _index(parent: Any, step: str) -> Any:
    return int(step) if isinstance(parent, list) else step


def _read(parent: Any, step: str) -> Any:
    if not isinstance(parent, (dict, list)):
        raise TypeError(f"{type(parent).__name__} has no {step!r}")
    return parent[_index(parent, step)]


def _add(parent: Any, step: str, value: Any) -> None:
    if isinstance(parent, list):
        at = len(parent) if step == "-" else int(step)
        if not 0 <= at <= len(parent):
            raise IndexError(f"the list has {len(parent)} items")
        parent.insert(at, wrap(value))
    else:
        parent[step] = value
