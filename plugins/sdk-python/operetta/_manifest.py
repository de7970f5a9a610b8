"""What a plugin watches, as its author says it; `manifest` forms are those of wit/manifest.schema.json."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, Optional, Union

from ._kind import Kind, KindLike, kind_of

Predicate = Literal["GenerationChanged", "LabelsChanged", "AnnotationsChanged", "ResourceVersionChanged"]
"""An event filter, as in controller-runtime's `predicate` package. It concerns updates: creations and deletions always
pass."""

_PREDICATES = ("GenerationChanged", "LabelsChanged", "AnnotationsChanged", "ResourceVersionChanged")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PATH = re.compile(r"(\.[^.\s]+)+")
_U32 = 2**32 - 1


class ManifestError(ValueError):
    """The plugin says something of itself that the host would refuse. `operetta build` shows it."""


class Source:
    """A kind to watch, and which of its objects and events.

    labels, fields: selectors in the API server's syntax, which applies them.
    predicates: an update must pass all of them.
    own_namespace: only objects of the Plugin's own namespace.
    """

    __slots__ = ("kind", "labels", "fields", "predicates", "own_namespace")

    def __init__(
        self,
        kind: KindLike,
        *,
        labels: Optional[str] = None,
        fields: Optional[str] = None,
        predicates: Union[tuple[Predicate, ...], list[Predicate]] = (),
        own_namespace: bool = False,
    ) -> None:
        self.kind = kind_of(kind)
        self.labels, self.fields, self.own_namespace = labels, fields, own_namespace
        self.predicates = tuple(dict.fromkeys(predicates))
        for predicate in self.predicates:
            if predicate not in _PREDICATES:
                raise ManifestError(f"{self.kind}: unknown predicate {predicate!r}; there are {', '.join(_PREDICATES)}")

    def manifest(self, own_namespace: bool, predicates: tuple[str, ...]) -> dict[str, Any]:
        """The manifest's form, with what holds for all sources of the controller."""
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
        return source


SourceLike = Union[Source, Kind]


def source_of(value: Union[Source, KindLike]) -> Source:
    """The source that a `Source` is or a kind names."""
    return value if isinstance(value, Source) else Source(value)


class Mapping(NamedTuple):
    """Which keys the event of a watched object enqueues; made by the functions of this class."""

    form: dict[str, Any]

    @classmethod
    def owner(cls) -> "Mapping":
        """The controlling owner, if it is of the controller's kind. `owns` is this in short."""
        return cls({"type": "Owner"})

    @classmethod
    def all_owners(cls) -> "Mapping":
        """Every owner of the controller's kind."""
        return cls({"type": "Owner", "allOwners": True})

    @classmethod
    def same_name(cls) -> "Mapping":
        """The key with the watched object's own namespace and name."""
        return cls({"type": "SameName"})

    @classmethod
    def field(cls, path: str, namespace: Optional[str] = None) -> "Mapping":
        """The key whose name stands at a path of the watched object, e.g. `.spec.claimRef.name`; in the namespace that
        stands at another one, or in the watched object's."""
        form = {"type": "FieldPath", "path": checked_path(path)}
        if namespace:
            form["namespacePath"] = checked_path(namespace)
        return cls(form)


class Watch(NamedTuple):
    """Another kind whose events enqueue keys by a mapping."""

    source: SourceLike
    map: Mapping


class RateLimiter(NamedTuple):
    """How fast failed and requeued keys come back: max(per-key exponential backoff, a token bucket over all keys). The
    defaults are client-go's."""

    base_delay_ms: int = 5
    """The first delay of a key, doubled with each failure."""
    max_delay_ms: int = 1_000_000
    """The longest delay of a key."""
    qps: int = 10
    """Requeues per second of all keys together."""
    burst: int = 100
    """Requeues that may come at once."""

    def manifest(self) -> dict[str, int]:
        """The manifest's form."""
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
    """Where the indexed value stands."""
    controller: Optional[Kind]
    """Or: the value is the name of the controlling owner, if that is of this kind."""

    def manifest(self) -> dict[str, Any]:
        """The manifest's form."""
        form: dict[str, Any] = {"name": self.name, "apiVersion": self.kind.api_version, "kind": self.kind.kind}
        if self.controller:
            form["controller"] = {"apiVersion": self.controller.api_version, "kind": self.controller.kind}
        else:
            form["path"] = self.path
        return form


def checked_path(path: str) -> str:
    """The path, if it is one like `.spec.nodeName`."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ManifestError(f"{path!r} is not a field path; write it like '.spec.nodeName'")
    return path


def checked_name(name: str) -> str:
    """The name, if it is a DNS label."""
    if not isinstance(name, str) or not _DNS_LABEL.fullmatch(name):
        raise ManifestError(
            f"{name!r} cannot be a controller's name: lower-case letters, digits and '-', at most 63, e.g. name='foo'"
        )
    return name


def number(name: str, value: int, least: int, most: int = _U32) -> int:
    """The number, if it is within its bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ManifestError(f"{name} is a whole number from {least} to {most}, not {value!r}")
    return value
