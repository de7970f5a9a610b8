"""Kinds and keys of objects.

>>> Foo = Kind("samplecontroller.k8s.io/v1alpha1", "Foo")
>>> Foo.new("example", "default", spec={"replicas": 1}).metadata.name
'example'
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Union

from ._object import Object


class Key(NamedTuple):
    """An object's namespace (None for cluster-scoped kinds) and name."""

    namespace: Optional[str]
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Kind(NamedTuple):
    """A kind. `api_version` is `group/version`, or the version alone for the core group."""

    api_version: str
    kind: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def new(
        self,
        name: str,
        namespace: Optional[str] = None,
        *,
        labels: Optional[Mapping[str, str]] = None,
        annotations: Optional[Mapping[str, str]] = None,
        **fields: Any,
    ) -> Object:
        """Returns a new object of this kind, in memory. `fields` are its other top-level fields, e.g. `spec`."""
        made = Object(apiVersion=self.api_version, kind=self.kind, metadata=Object(name=name))
        metadata = made["metadata"]
        if namespace:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = dict(labels)
        if annotations:
            metadata["annotations"] = dict(annotations)
        made.update(fields)
        return made

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


KindLike = Union[Kind, tuple[str, str], Mapping[str, Any]]
NameLike = Union[str, Key, tuple[Optional[str], str], Mapping[str, Any]]


def kind_of(value: KindLike) -> Kind:
    """Returns the kind of a `Kind`, a pair (apiVersion, kind) or an object.

    Raises:
        ValueError: The object has no apiVersion or kind.
        TypeError: The value is none of these.
    """
    if isinstance(value, Kind):
        return value
    if isinstance(value, Mapping):
        api_version, kind = value.get("apiVersion"), value.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            name = key_of(value)
            raise ValueError(f"the object {str(name)!r} needs apiVersion and kind; Kind.new(…) sets them")
        return Kind(api_version, kind)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) and part for part in value):
        return Kind(*value)
    raise TypeError(f"a kind must be a Kind(api_version, kind), not {value!r}")


def key_of(value: NameLike, namespace: Optional[str] = None) -> Key:
    """Returns the key of a name (with `namespace`), a `Key`, a pair (namespace, name) or an object.

    The name may be empty.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, str):
        key = Key(namespace or None, value)
    elif isinstance(value, Mapping):
        metadata = value.get("metadata") or {}
        key = Key(namespace or metadata.get("namespace") or None, metadata.get("name") or "")
    elif isinstance(value, tuple) and len(value) == 2:
        key = Key(namespace or value[0] or None, value[1])
    else:
        raise TypeError(f"a name must be a str, a Key, or an object with metadata.name, not {value!r}")
    if not isinstance(key.name, str):
        raise TypeError(f"a name must be a str, not {key.name!r}")
    return key


def named(value: NameLike, kind: Kind, namespace: Optional[str] = None) -> Key:
    """Returns the key as `key_of` does.

    Raises:
        ValueError: The name is empty.
        TypeError: The value has no key.
    """
    key = key_of(value, namespace)
    if not key.name:
        raise ValueError(f"this {kind} has no metadata.name")
    return key
