"""JSON decoding into `Object`s, and encoding. Integers are exact at any size."""

from __future__ import annotations

import json
from typing import Any

from ._object import Decoded, Object

_decode = json.JSONDecoder(object_hook=Decoded).decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def decode(text: str) -> Any:
    """Decodes a JSON text.

    Raises:
        ValueError: The text is not JSON.
    """
    return _decode(text)


def decode_object(text: str, what: str) -> Object:
    """Decodes a JSON object.

    Raises:
        ValueError: The text is not a JSON object; the message names `what`.
    """
    try:
        value = _decode(text)
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    if not isinstance(value, Object):
        raise ValueError(f"{what} is JSON, but not an object: {text[:80]}")
    return value


def encode(value: Any, what: str) -> str:
    """Encodes a value as JSON.

    Raises:
        TypeError: JSON has no form for a value in it; the message names `what`.
    """
    try:
        text = _encode(value)
        # A lone surrogate is not Unicode text: only its escape can be sent.
        return text if text.isascii() or _is_unicode(text) else json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        notes = "".join(f", {note}" for note in reversed(getattr(error, "__notes__", ())))
        raise TypeError(f"{what} cannot be written as JSON: {error}{notes}") from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
