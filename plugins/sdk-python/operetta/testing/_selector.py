"""Label and field selectors in the API server's syntax: `app=db,tier in (a, b),!old`."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Optional

from ..errors import BadRequestError

_TOKEN = r"[A-Za-z0-9._/-]+"
_VALUE = r"[A-Za-z0-9._/-]*"
_FORMS = [
    (re.compile(rf"!\s*({_TOKEN})"), True),
    (re.compile(rf"({_TOKEN})\s+in\s+\(([^()]*)\)"), False),
    (re.compile(rf"({_TOKEN})\s+notin\s+\(([^()]*)\)"), True),
    (re.compile(rf"({_TOKEN})\s*!=\s*({_VALUE})"), True),
    (re.compile(rf"({_TOKEN})\s*==?\s*({_VALUE})"), False),
    (re.compile(rf"({_TOKEN})"), False),
]


class _Requirement(NamedTuple):
    key: str
    values: Optional[list[str]]
    """The values; None matches any value."""
    negated: bool


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Reports whether a label selector matches these labels.

    Raises:
        BadRequestError: The selector does not parse.
    """
    for key, values, negated in _parse(selector):
        value = labels.get(key)
        if (value is not None and (values is None or value in values)) == negated:
            return False
    return True


def field_matches(selector: str, fields: Mapping[str, str]) -> bool:
    """Reports whether a field selector matches these fields.

    Raises:
        BadRequestError: The selector does not parse, or names another field.
    """
    for part in filter(None, map(str.strip, selector.split(","))):
        found = re.fullmatch(r"([^=!\s]+)\s*(!=|==?)\s*(\S*)", part)
        if not found:
            raise BadRequestError(f"{part!r} is not a field requirement")
        name, operator, value = found.groups()
        if name not in fields:
            raise BadRequestError(f"{name!r} is not a field of cached reads; declare an index, or read live")
        if (fields[name] == value) == (operator == "!="):
            return False
    return True


def _parse(selector: str) -> list[_Requirement]:
    # Commas within parentheses separate values.
    parts = re.split(r",(?![^()]*\))", selector) if selector.strip() else []
    return [_requirement(part.strip()) for part in parts]


def _requirement(part: str) -> _Requirement:
    for form, negated in _FORMS:
        found = form.fullmatch(part)
        if not found:
            continue
        if form.groups == 1:
            return _Requirement(found[1], None, negated)
        values = [value.strip() for value in found[2].split(",")]
        if all(re.fullmatch(_VALUE, value) for value in values):
            return _Requirement(found[1], values, negated)
    raise BadRequestError(f"{part!r} is not a label requirement")
