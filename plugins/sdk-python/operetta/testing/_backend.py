"""The backend of a test cluster."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, TypeVar

from .._backend import DeleteQuery, Event, ListQuery, Page, PatchQuery, RawRequest, WriteOptions
from .._json import decode, encode
from .._kind import Key, Kind
from .._manifest import Index
from .._object import Object
from ..errors import ApiError, BadRequestError
from ..owners import controller_of
from . import _patch, _selector
from ._store import Store, unsupported

T = TypeVar("T")
_ALWAYS = (".apiVersion", ".kind", *(f".metadata.{name}" for name in ("name", "namespace", "uid", "resourceVersion")))


class Write(NamedTuple):
    """A write that the API server accepted, even if it changed nothing."""

    verb: str
    kind: Kind
    key: Key

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.kind} {self.key}"


class TestBackend:
    """The backend over a `Store`."""

    __test__ = False

    def __init__(self) -> None:
        self.store = Store()
        self.config_text = "{}"
        self.indexes: list[Index] = []
        self.faults: list[tuple[str, ApiError]] = []
        self.writes: list[Write] = []
        self.events: list[Event] = []
        self.raw_responses: dict[tuple[str, str], tuple[int, str]] = {}

    def get(self, kind: Kind, key: Key, live: bool) -> str:
        self._fault("get")
        return _text(self.store.get(kind, key))

    def list(self, kind: Kind, query: ListQuery) -> Page:
        self._fault("list")
        if query.live and (query.by_index or query.by_owner):
            raise BadRequestError("a list by owner or index must be cached")
        index = self._index(kind, query.by_index[0]) if query.by_index else None
        selected = [obj for key, obj in self.store.of_kind(kind) if _selects(query, index, key, obj)]
        begin = 0
        if query.continue_token:
            if not query.continue_token.isdecimal():
                raise BadRequestError(f"{query.continue_token!r} is not a continue token")
            begin = int(query.continue_token)
        end = min(begin + query.limit, len(selected)) if query.limit else len(selected)
        items = [_text(_projected(obj, query.projection)) for obj in selected[begin:end]]
        return items, self.store.version, str(end) if end < len(selected) else None

    def create(self, kind: Kind, namespace: Optional[str], text: str, options: WriteOptions) -> str:
        _check(options)
        made = self._write("create", options.dry_run, kind, lambda store: store.create(kind, namespace, text))
        return _text(made)

    def update(self, kind: Kind, key: Key, text: str, options: WriteOptions, status: bool) -> str:
        _check(options)
        verb = "update_status" if status else "update"
        return _text(self._write(verb, options.dry_run, kind, lambda store: store.update(kind, key, text, status)))

    def patch(self, kind: Kind, key: Key, query: PatchQuery, options: WriteOptions) -> str:
        _check(options)
        if query.type == "apply":
            raise unsupported("server-side apply")
        if query.subresource not in (None, "status"):
            raise unsupported(f"the subresource {query.subresource}")

        def change(store: Store) -> Object:
            apply = _patch.merge if query.type == "merge" else _patch.json_patch
            changed = apply(store.get(kind, key).copy(), decode(query.body))
            return store.update(kind, key, encode(changed, f"{kind} {key}"), query.subresource == "status")

        return _text(self._write("patch", options.dry_run, kind, change))

    def delete(self, kind: Kind, key: Key, query: DeleteQuery) -> None:
        if query.propagation in ("Foreground", "Orphan"):
            raise unsupported("foreground and orphan deletion")
        uid, version = query.uid, query.resource_version
        self._write("delete", query.dry_run, kind, lambda store: store.delete(kind, key, uid, version), key)

    def raw(self, request: RawRequest) -> tuple[int, str, Optional[int], str]:
        response = self.raw_responses.get((request.method, request.path))
        if response is None:
            raise unsupported(f"{request.method} {request.path} (Cluster.set_raw_response sets a response)")
        status, body = response
        return status, "application/json", None, body

    def event(self, event: Event) -> None:
        self.events.append(event)

    def config(self) -> str:
        return self.config_text

    def _fault(self, verb: str) -> None:
        """Raises the error that the test has set for this call."""
        for at, (failing, error) in enumerate(self.faults):
            if failing == verb:
                del self.faults[at]
                raise error

    def _write(self, verb: str, dry_run: bool, kind: Kind, write: Callable[[Store], T], key: Optional[Key] = None) -> T:
        """Runs a write on the store, or on a copy of it if it is a dry run."""
        self._fault(verb)
        if dry_run:
            return write(self.store.clone())
        written = write(self.store)
        if isinstance(written, Object):
            key = Key(written["metadata"].get("namespace"), written["metadata"]["name"])
        assert key is not None
        self.writes.append(Write(verb, kind, key))
        return written

    def _index(self, kind: Kind, name: str) -> Index:
        for index in self.indexes:
            if (index.name, index.kind) == (name, kind):
                return index
        raise BadRequestError(f"the index {name!r} of {kind} is not declared; call Plugin.index")


def _selects(query: ListQuery, index: Optional[Index], key: Key, obj: Object) -> bool:
    """Reports whether a list returns an object."""
    if query.namespace and query.namespace != key.namespace:
        return False
    if query.labels and not _selector.matches(query.labels, obj.get_nested("metadata", "labels", default={})):
        return False
    fields = {"metadata.name": key.name, "metadata.namespace": key.namespace or ""}
    if query.fields and not _selector.field_matches(query.fields, fields):
        return False
    owner = controller_of(obj) or {}
    if query.by_owner and owner.get("uid") != query.by_owner:
        return False
    if index is None or query.by_index is None:
        return True
    if index.label is not None:
        return bool(obj.get_nested("metadata", "labels", index.label) == query.by_index[1])
    if index.controller is None:
        value = obj.get_nested(*(index.path or "").split(".")[1:])
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return not isinstance(value, (dict, list, type(None))) and text == query.by_index[1]
    same_group = str(owner.get("apiVersion", "")).rpartition("/")[0] == index.controller.group
    return same_group and owner.get("kind") == index.controller.kind and owner.get("name") == query.by_index[1]


def _projected(obj: Object, projection: tuple[str, ...]) -> Object:
    """Returns the object with the fields of a projection and those that every projection keeps."""
    if not projection:
        return obj
    kept = Object()
    for path in (*_ALWAYS, *projection):
        steps = path.split(".")[1:]
        value = obj.get_nested(*steps)
        if value is not None:
            kept.ensure(*steps[:-1])[steps[-1]] = value
    return kept


def _check(options: WriteOptions) -> None:
    if options.strict:
        raise unsupported("strict field validation")


def _text(obj: Any) -> str:
    return encode(obj, "a stored object")
