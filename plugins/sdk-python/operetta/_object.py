"""Kubernetes objects: dicts whose fields are attributes, too.

>>> foo = Object({"spec": {"replicas": 2}})
>>> foo.spec.replicas, foo["spec"]["replicas"], foo.dig("status", "phase", default="new")
(2, 2, 'new')

An `Object` is a dict, so everything that takes dicts takes it. What the API server sends is made of them at every
depth. Assigning a plain dict to a field stores a copy of it as an `Object`. Fields that bear the name of a dict's
method (`items`, `values`, `keys`, `get`, …) or of a Python keyword (`from`) are reached with brackets only.

A missing field raises `AttributeError` or, with brackets, `KeyError`; the message says the field's path and what is
there instead. `get` and `dig` never raise for one.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

_MISSING = object()


class Object(dict[str, Any]):
    """A JSON object with its fields as attributes. See the module's text."""

    # The path by which it was last reached, for error messages.
    __slots__ = ("_at",)

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        for key, value in self.items():
            wrapped = wrap(value)
            if wrapped is not value:
                dict.__setitem__(self, key, wrapped)

    def dig(self, *path: str | int, default: Any = None) -> Any:
        """The value at a path of field names and list positions; `default` if any step is absent or null."""
        value: Any = self
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return default
        return default if value is None else value

    def ensure(self, *path: str) -> "Object":
        """The object at a path, which is made, level by level, where it is absent or null.

        Raises `TypeError` if something else than an object stands on the way.
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
        """A copy that shares nothing with this one."""
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
    """An `Object` made by the JSON decoder: what is in it has been wrapped already. It differs in nothing else."""

    __slots__ = ()
    # dict's own, in C: this runs for each object in each document.
    __init__ = dict.__init__


Decoded.__name__ = Decoded.__qualname__ = "Object"

_METHODS = frozenset(dir(dict)) | {"dig", "ensure", "_at"}
_SET_AT = Object.__dict__["_at"].__set__
_GET_AT = Object.__dict__["_at"].__get__


class _Text(str):
    """A message that KeyError shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def wrap(value: Any) -> Any:
    """The value with every plain dict in it copied into an `Object`; everything else is kept as it is."""
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
    """How an object is called in messages."""
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
    there = ", ".join(list(value)[:12]) or "nothing"
    return f"{_path(value)} has no field {name!r} (there: {there}); .get({name!r}) gives None instead"


def means_the_same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the API server: an absent field, null, and an empty list or object are one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(means_the_same(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(means_the_same, one, other))
    if _empty(one) or _empty(other):
        return _empty(one) and _empty(other)
    # 1 == True in Python, but not in JSON.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, (dict, list)) and not value)
