"""Kubernetes objects: dicts whose fields are also attributes.

>>> foo = Object({"spec": {"replicas": 2}})
>>> foo.spec.replicas, foo["spec"]["replicas"], foo.get_nested("status", "phase", default="new")
(2, 2, 'new')

An `Object` is a dict, so every function that takes a dict takes it. The API server's objects consist of them at every
depth. Assigning a plain dict to a field stores a copy of it as an `Object`. A field with the name of a dict's method
(`items`, `values`, `keys`, `get`, …) or of a Python keyword (`from`) is accessible with brackets only.

A missing field raises `AttributeError`, or `KeyError` with brackets. The message names the field's path and the fields
that exist. `get` and `get_nested` return a default instead.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

_MISSING = object()


class Object(dict[str, Any]):
    """A JSON object whose fields are also attributes; see the module's documentation."""

    # The path of the last access, for error messages.
    __slots__ = ("_at",)

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        for key, value in self.items():
            wrapped = wrap(value)
            if wrapped is not value:
                dict.__setitem__(self, key, wrapped)

    def get_nested(self, *path: str | int, default: Any = None) -> Any:
        """Returns the value at a path of field names and list positions, or `default` if a step is absent or null."""
        value: Any = self
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return default
        return default if value is None else value

    def ensure(self, *path: str) -> "Object":
        """Returns the object at a path, and creates each level that is absent or null.

        Raises:
            TypeError: A value on the path is not an object.
        """
        value: Any = self
        for step in path:
            inner = dict.get(value, step)
            if inner is None:
                inner = Object()
                dict.__setitem__(value, step, inner)
            elif not isinstance(inner, Object):
                raise TypeError(f"{_label(self)}: {'.'.join(path)}: {step} is {type(inner).__name__}, not an object")
            value = inner
        return value  # type: ignore[no-any-return]

    def copy(self) -> "Object":
        """Returns a deep copy."""
        return _copied(self)  # type: ignore[no-any-return]

    def __copy__(self) -> "Object":
        return self.copy()

    def __deepcopy__(self, _: Any) -> "Object":
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        try:
            value = dict.__getitem__(self, name)
        except KeyError:
            raise AttributeError(_missing(self, name)) from None
        if isinstance(value, Object):
            _SET_AT(value, f"{_path(self)}.{name}")
        return value

    def __missing__(self, name: str) -> Any:
        raise KeyError(_Text(_missing(self, name)))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _METHODS:
            raise AttributeError(f"{name!r} is a method of dict: write object[{name!r}] = … to set the field")
        dict.__setitem__(self, name, wrap(value))

    def __delattr__(self, name: str) -> None:
        try:
            dict.__delitem__(self, name)
        except KeyError:
            raise AttributeError(_missing(self, name)) from None

    def __setitem__(self, name: str, value: Any) -> None:
        dict.__setitem__(self, name, wrap(value))

    def setdefault(self, name: str, default: Any = None) -> Any:
        return dict.setdefault(self, name, wrap(default))

    def update(self, *args: Any, **fields: Any) -> None:
        dict.update(self, Object(*args, **fields))

    def __ior__(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> "Object":  # type: ignore[override,misc]
        self.update(other)
        return self

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self]

    def __reduce__(self) -> Any:
        return (Object, (dict(self),))


class Decoded(Object):
    """An `Object` from the JSON decoder, whose values are wrapped already. It has no other difference."""

    __slots__ = ()
    # The dict's own constructor, in C: it runs for each object in each document.
    __init__ = dict.__init__


Decoded.__name__ = Decoded.__qualname__ = "Object"

_METHODS = frozenset(dir(dict)) | {"get_nested", "ensure", "_at"}
_SET_AT = Object.__dict__["_at"].__set__
_GET_AT = Object.__dict__["_at"].__get__


class _Text(str):
    """A message that KeyError prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def wrap(value: Any) -> Any:
    """Returns the value with every plain dict in it copied into an `Object`. Other values are kept."""
    kind = type(value)
    if kind is dict:
        return Object(value)
    if kind is list or kind is tuple:
        wrapped = [wrap(item) for item in value]
        if kind is list and all(new is old for new, old in zip(wrapped, value, strict=True)):
            return value
        return wrapped
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        copied = Object()
        for key, inner in value.items():
            dict.__setitem__(copied, key, _copied(inner))
        return copied
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


def _path(value: Object) -> str:
    """Returns an object's name in messages."""
    try:
        return _GET_AT(value)  # type: ignore[no-any-return]
    except AttributeError:
        return _label(value)


def _label(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    kind = value.get("kind") or "the object"
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return str(kind)
    namespace: Optional[str] = metadata.get("namespace")
    return f"{kind} {namespace}/{metadata['name']}" if namespace else f"{kind} {metadata['name']}"


def _missing(value: Object, name: str) -> str:
    fields = ", ".join(list(value)[:12]) or "none"
    return f"{_path(value)} has no field {name!r} (fields: {fields}); .get({name!r}) returns None instead"


def semantically_equal(one: Any, other: Any) -> bool:
    """Reports whether two values are equal to the API server: an absent field, null, and an empty list or object are
    equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(semantically_equal(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(semantically_equal, one, other))
    if _empty(one) or _empty(other):
        return _empty(one) and _empty(other)
    # 1 == True in Python, but not in JSON.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, (dict, list)) and not value)
