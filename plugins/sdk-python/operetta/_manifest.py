"""The parts of a plugin's manifest. The `manifest` methods return the forms of wit/manifest.schema.json."""

from __future__ import annotations

import collections.abc
import re
from typing import Any, Callable, Iterable, Literal, NamedTuple, Optional, Union

from ._kind import Kind, KindLike, NameLike, kind_of
from ._object import Object

Predicate = Literal["GenerationChanged", "LabelsChanged", "AnnotationsChanged", "ResourceVersionChanged"]
"""An event filter, as in controller-runtime's `predicate` package. It filters updates; creations and deletions always
pass."""

_PREDICATES = ("GenerationChanged", "LabelsChanged", "AnnotationsChanged", "ResourceVersionChanged")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PATH = re.compile(r"(\.[^.\s]+)+")
_U32 = 2**32 - 1


class ManifestError(ValueError):
    """A declaration that the host would refuse. `operetta build` prints it."""


class Source:
    """A kind to watch, with selectors and event filters.

    Args:
        kind: The kind.
        labels: A label selector in the API server's syntax, or a dict of equal labels. The API server applies it.
        fields: A field selector, likewise.
        predicates: Event filters: an update must pass all of them.
        prune: Paths of fields that the host's cache leaves out of these objects, e.g. `.status`, to need less memory. A
            function of `Mapping.custom` gets the objects without them. Reads return whole objects: the API server
            answers a get, and a list unless its projection needs none of the fields.
        own_namespace: Watches only the Plugin's own namespace.

    Raises:
        ManifestError: A predicate is unknown, or a path is malformed.
    """

    __slots__ = ("kind", "labels", "fields", "predicates", "prune", "own_namespace")

    def __init__(
        self,
        kind: KindLike,
        *,
        labels: Union[str, collections.abc.Mapping[str, str], None] = None,
        fields: Union[str, collections.abc.Mapping[str, str], None] = None,
        predicates: Union[tuple[Predicate, ...], list[Predicate]] = (),
        prune: collections.abc.Sequence[str] = (),
        own_namespace: bool = False,
    ) -> None:
        self.kind = kind_of(kind)
        self.labels = selector_text(labels)
        self.fields = selector_text(fields)
        self.own_namespace = own_namespace
        if isinstance(prune, str):
            raise ManifestError(f"{self.kind}: prune= takes a list of paths, e.g. [{prune!r}]")
        self.prune = tuple(checked_path(path) for path in prune)
        self.predicates = tuple(dict.fromkeys(predicates))
        for predicate in self.predicates:
            if predicate not in _PREDICATES:
                known = ", ".join(_PREDICATES)
                raise ManifestError(f"{self.kind}: unknown predicate {predicate!r}; the predicates are {known}")

    def manifest(self, own_namespace: bool, predicates: tuple[str, ...]) -> dict[str, Any]:
        """Returns the manifest's form, with the settings that all sources of the controller share."""
        source: dict[str, Any] = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        if own_namespace or self.own_namespace:
            source["namespaces"] = "Own"
        if self.labels:
            source["labelSelector"] = self.labels
        if self.fields:
            source["fieldSelector"] = self.fields
        every = list(dict.fromkeys((*self.predicates, *predicates)))
        if every:
            source["predicates"] = every
        if self.prune:
            source["prune"] = list(self.prune)
        return source


SourceLike = Union[Source, Kind]


def source_of(value: Union[Source, KindLike]) -> Source:
    """Returns the source itself, or a source of the kind."""
    return value if isinstance(value, Source) else Source(value)


def selector_text(value: Union[str, collections.abc.Mapping[str, str], None]) -> Optional[str]:
    """Returns a selector in the API server's syntax; None if it selects everything."""
    if isinstance(value, collections.abc.Mapping):
        return ",".join(f"{name}={text}" for name, text in value.items()) or None
    return value


class Mapping(NamedTuple):
    """A mapping from the event of a watched object to keys. The class methods build one."""

    form: dict[str, Any]
    """The manifest's form."""
    keys: Optional[Callable[[Object], Iterable[NameLike]]] = None
    """The function of `custom`."""

    @classmethod
    def owner(cls) -> "Mapping":
        """Maps to the controlling owner, if it is of the controller's kind. `owns=` is short for it."""
        return cls({"type": "Owner"})

    @classmethod
    def all_owners(cls) -> "Mapping":
        """Maps to every owner of the controller's kind."""
        return cls({"type": "Owner", "allOwners": True})

    @classmethod
    def same_name(cls) -> "Mapping":
        """Maps to the key with the watched object's namespace and name."""
        return cls({"type": "SameName"})

    @classmethod
    def field(cls, path: str, namespace: Optional[str] = None) -> "Mapping":
        """Maps to the key whose name is in a field of the watched object.

        Args:
            path: The path of the name, e.g. `.spec.claimRef.name`.
            namespace: The path of the namespace; the watched object's namespace if None.

        Raises:
            ManifestError: A path is malformed.
        """
        form = {"type": "FieldPath", "path": checked_path(path)}
        if namespace:
            form["namespacePath"] = checked_path(namespace)
        return cls(form)

    @classmethod
    def custom(cls, keys: Callable[[Object], Iterable[NameLike]]) -> "Mapping":
        """Maps to the keys that a function of the watched object returns, at most 1,000.

        The function is called with the object and, if that has changed, with its old state as well: the keys of both
        are reconciled. For a deleted object it is called with the last state. It cannot read other objects. If it
        raises, the host retries the mapping.

        Args:
            keys: Returns `Key`s, pairs (namespace, name), objects, or names of cluster-scoped objects.

        Raises:
            ManifestError: The argument is not a function.
        """
        if not callable(keys):
            raise ManifestError(f"Mapping.custom takes a function from an object to keys, not {keys!r}")
        return cls({"type": "Custom"}, keys)


class Watch(NamedTuple):
    """Another kind to watch, and the mapping from its events to keys."""

    source: SourceLike
    map: Mapping


class RateLimiter(NamedTuple):
    """The delay of failed and requeued keys: the maximum of a per-key exponential backoff and a token bucket over all
    keys. The defaults are client-go's."""

    base_delay_ms: int = 5
    """The first delay of a key, doubled with each failure."""
    max_delay_ms: int = 1_000_000
    """The maximum delay of a key."""
    qps: int = 10
    """The requeues per second of all keys."""
    burst: int = 100
    """The burst of the token bucket."""

    def manifest(self) -> dict[str, int]:
        """Returns the manifest's form.

        Raises:
            ManifestError: A number is out of range.
        """
        return {
            "baseDelayMs": number("base_delay_ms", self.base_delay_ms, 0),
            "maxDelayMs": number("max_delay_ms", self.max_delay_ms, 0),
            "qps": number("qps", self.qps, 1),
            "burst": number("burst", self.burst, 1),
        }


class Index(NamedTuple):
    """An index over the cached objects of a kind, for `Context.list(index=(name, value))`."""

    name: str
    kind: Kind
    path: Optional[str]
    """The path of the indexed value."""
    label: Optional[str]
    """Instead of a path: the label whose value is indexed."""
    controller: Optional[Kind]
    """Instead of a path: the kind of the controlling owner, whose name is the value."""

    def manifest(self) -> dict[str, Any]:
        """Returns the manifest's form."""
        form: dict[str, Any] = {"name": self.name, "apiVersion": self.kind.api_version, "kind": self.kind.kind}
        if self.controller:
            form["controller"] = {"apiVersion": self.controller.api_version, "kind": self.controller.kind}
        elif self.label is not None:
            form["label"] = self.label
        else:
            form["path"] = self.path
        return form


def checked_path(path: str) -> str:
    """Returns a field path like `.spec.nodeName`.

    Raises:
        ManifestError: The path is malformed.
    """
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ManifestError(f"{path!r} is not a field path; write it like '.spec.nodeName'")
    return path


def checked_name(name: str) -> str:
    """Returns a controller's name.

    Raises:
        ManifestError: The name is not a DNS label.
    """
    if not isinstance(name, str) or not _DNS_LABEL.fullmatch(name):
        raise ManifestError(
            f"{name!r} is not a valid controller name: use lower-case letters, digits and '-', at most 63, e.g. 'foo'"
        )
    return name


def number(name: str, value: int, least: int, most: int = _U32) -> int:
    """Returns a whole number.

    Raises:
        ManifestError: It is out of range.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ManifestError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value
