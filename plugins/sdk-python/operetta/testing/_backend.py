"""The backend of a test cluster: the calls of a reconciler as requests to the test server."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from .._backend import DeleteQuery, Event, ListQuery, Page, PatchQuery, RawRequest, Texts, WriteOptions
from .._json import encode
from .._kind import Key, Kind
from ..errors import ApiError
from ._server import Connection

_READ = {False: "cached", True: "live"}


class Write(NamedTuple):
    """A write that the API server accepted, even if it changed nothing."""

    verb: str
    kind: Kind
    key: Key

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.kind} {self.key}"


class TestBackend:
    """The backend over a connection. It records writes and Events, and raises the errors that a test has set."""

    __test__ = False

    def __init__(self) -> None:
        self.connection = Connection()
        self.config_text = "{}"
        self.faults: list[tuple[str, ApiError]] = []
        self.writes: list[Write] = []
        self.events: list[Event] = []
        self.raw_responses: dict[tuple[str, str], tuple[int, str]] = {}
        self._manifest = ""

    def declare(self, manifest: str) -> None:
        """Declares the plugin whose reconciler runs next: its indexes can be listed."""
        if manifest != self._manifest:
            self.connection.call("manifest", {"manifest": manifest})
            self._manifest = manifest

    def add(self, text: str) -> str:
        """Adds an object, which is no write of a reconciler, and returns it as stored."""
        return _text(self.connection.call("add", {}, object=text))

    def define(self, kind: Kind, plural: Optional[str], namespaced: bool, status: bool) -> None:
        """Defines a custom kind."""
        arguments = {"kind": _kind(kind), "plural": plural, "namespaced": namespaced, "status": status}
        self.connection.call("define", arguments)

    def dump(self) -> str:
        """Returns the objects of the cluster and the calls so far."""
        return str(self.connection.call("dump", {}))

    def look(self, kind: Kind, key: Key) -> str:
        """Reads an object for the test itself, which no set error fails."""
        return _text(self.connection.call("get", {"kind": _kind(kind), "key": _key(key), "read": "cached"}))

    def get(self, kind: Kind, key: Key, live: bool) -> str:
        self._fault("get")
        return _text(self.connection.call("get", {"kind": _kind(kind), "key": _key(key), "read": _READ[live]}))

    def list(self, kind: Kind, query: ListQuery) -> Page:
        self._fault("list")
        options = _given(
            namespace=query.namespace, labels=query.labels, fields=query.fields, selection=_selection(query),
            limit=query.limit, continueToken=query.continue_token, read=_READ[query.live], projection=query.projection,
        )  # fmt: skip
        page = self.connection.call("list", {"kind": _kind(kind), "options": options})
        return [_text(item) for item in page["items"]], page["resourceVersion"], page.get("continueToken")

    def create(self, kind: Kind, namespace: Optional[str], text: str, options: WriteOptions) -> str:
        self._fault("create")
        arguments = {"kind": _kind(kind), "namespace": namespace, "options": _write(options)}
        made = self.connection.call("create", arguments, object=text)
        self._record("create", kind, Key(made["metadata"].get("namespace"), made["metadata"]["name"]), options.dry_run)
        return _text(made)

    def update(self, kind: Kind, key: Key, text: str, options: WriteOptions, status: bool) -> str:
        verb, call = ("update_status", "updateStatus") if status else ("update", "update")
        self._fault(verb)
        arguments = {"kind": _kind(kind), "key": _key(key), "options": _write(options)}
        written = self.connection.call(call, arguments, object=text)
        self._record(verb, kind, key, options.dry_run)
        return _text(written)

    def patch(self, kind: Kind, key: Key, query: PatchQuery, options: WriteOptions) -> str:
        self._fault("patch")
        arguments = {
            "kind": _kind(kind), "key": _key(key), "subresource": query.subresource, "type": query.type,
            "force": query.force, "options": _write(options),
        }  # fmt: skip
        written = self.connection.call("patch", arguments, body=query.body)
        self._record("patch", kind, key, options.dry_run)
        return _text(written)

    def delete(self, kind: Kind, key: Key, query: DeleteQuery) -> None:
        self._fault("delete")
        options = _given(
            uid=query.uid, resourceVersion=query.resource_version, gracePeriodSeconds=query.grace_period_seconds,
            propagation=query.propagation and query.propagation.lower(), dryRun=query.dry_run,
        )  # fmt: skip
        self.connection.call("delete", {"kind": _kind(kind), "key": _key(key), "options": options})
        self._record("delete", kind, key, query.dry_run)

    def raw(self, request: RawRequest) -> tuple[int, str, Optional[int], str]:
        response = self.raw_responses.get((request.method, request.path))
        if response is not None:
            status, body = response
            return status, "application/json", None, body
        sent = _given(
            method=request.method, path=request.path, query=request.query, contentType=request.content_type,
            accept=request.accept, body=request.body, cached=request.cached,
        )  # fmt: skip
        answer = self.connection.call("send", {"request": sent})
        return answer["status"], answer["contentType"], answer.get("retryAfterSeconds"), answer["body"]

    def take_warnings(self) -> Texts:
        return self.connection.take_warnings()

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

    def _record(self, verb: str, kind: Kind, key: Key, dry_run: bool) -> None:
        if not dry_run:
            self.writes.append(Write(verb, kind, key))


def _given(**fields: Any) -> dict[str, Any]:
    """Returns the fields that are set."""
    return {name: value for name, value in fields.items() if value is not None}


def _kind(kind: Kind) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _key(key: Key) -> dict[str, str]:
    return _given(namespace=key.namespace, name=key.name)


def _write(options: WriteOptions) -> dict[str, Any]:
    return _given(dryRun=options.dry_run, fieldManager=options.field_manager, strict=options.strict)


def _selection(query: ListQuery) -> dict[str, str]:
    if query.by_index is not None:
        index, value = query.by_index
        return {"type": "by-index", "index": index, "value": value}
    if query.by_owner is not None:
        return {"type": "by-owner", "uid": query.by_owner}
    return {"type": "all"}


def _text(value: Any) -> str:
    return encode(value, "an object of the test server")
