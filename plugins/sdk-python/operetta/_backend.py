"""The backend of a context: the host in a plugin, the test server in a unit test.

Objects cross as JSON text. Failed calls raise `ApiError`.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol

from ._kind import Key, Kind


class ListQuery(NamedTuple):
    """The options of a list (the contract's `list-options`)."""

    namespace: Optional[str] = None
    labels: Optional[str] = None
    fields: Optional[str] = None
    by_index: Optional[tuple[str, str]] = None
    by_owner: Optional[str] = None
    limit: Optional[int] = None
    continue_token: Optional[str] = None
    live: bool = False
    projection: tuple[str, ...] = ()


class WriteOptions(NamedTuple):
    """The options of a write (the contract's `write-options`)."""

    dry_run: bool = False
    field_manager: Optional[str] = None
    strict: bool = False


class PatchQuery(NamedTuple):
    """A patch; `type` is merge, json or apply."""

    type: str
    body: str
    subresource: Optional[str] = None
    force: bool = False


class DeleteQuery(NamedTuple):
    """The options of a deletion (the contract's `delete-options`)."""

    uid: Optional[str] = None
    resource_version: Optional[str] = None
    grace_period_seconds: Optional[int] = None
    propagation: Optional[str] = None
    dry_run: bool = False


class RawRequest(NamedTuple):
    """One HTTP request to the API server (the contract's `raw.request`)."""

    method: str
    path: str
    query: str = ""
    content_type: Optional[str] = None
    accept: Optional[str] = None
    body: Optional[str] = None
    cached: bool = False


class Event(NamedTuple):
    """An Event about an object; `type` is Normal or Warning."""

    kind: Kind
    key: Key
    uid: Optional[str]
    type: str
    reason: str
    action: str
    message: str


Page = tuple[list[str], str, Optional[str]]
"""The items, the resourceVersion of the collection, and the token of the next page."""
Texts = list[str]
"""Texts of the API server. (In a class with a method `list`, that name is no type.)"""


class Backend(Protocol):
    """The calls to the host (the contract's imports)."""

    def get(self, kind: Kind, key: Key, live: bool) -> str: ...

    def list(self, kind: Kind, query: ListQuery) -> Page: ...

    def create(self, kind: Kind, namespace: Optional[str], text: str, options: WriteOptions) -> str: ...

    def update(self, kind: Kind, key: Key, text: str, options: WriteOptions, status: bool) -> str: ...

    def patch(self, kind: Kind, key: Key, query: PatchQuery, options: WriteOptions) -> str: ...

    def delete(self, kind: Kind, key: Key, query: DeleteQuery) -> None: ...

    def raw(self, request: RawRequest) -> tuple[int, str, Optional[int], str]: ...

    def take_warnings(self) -> Texts: ...

    def event(self, event: Event) -> None: ...

    def config(self) -> str: ...
