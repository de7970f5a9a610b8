"""What a reconciler works with: the API server under the identity of the plugin's ServiceAccount, events, and the
plugin's configuration.

Reads come from the host's cache unless they are called live; they see this plugin's own writes at once. Every call to
the API server raises `ApiError`, as the subclass that says why.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Callable, Literal, Mapping, NamedTuple, Optional, Sequence, Union, overload

from ._backend import Backend, DeleteQuery, EventNote, ListQuery, PatchQuery, RawRequest, WriteOptions
from ._json import decode, decode_object, encode
from ._kind import KindLike, NameLike, key_of, kind_of, named
from ._object import Object, means_the_same
from ._results import Request, Requeue
from .errors import NotFound, TerminalError
from .owners import add_finalizer, has_finalizer, is_being_deleted, remove_finalizer

Propagation = Literal["Background", "Foreground", "Orphan"]
_PROPAGATIONS = ("Background", "Foreground", "Orphan")
# Bytes that a query may hold unescaped.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


class OperationResult(StrEnum):
    """What `Context.create_or_update` did."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Page(NamedTuple):
    """One page of a list."""

    items: list[Object]
    """The objects; cached reads come in the order of namespace, then name."""
    resource_version: str
    """The collection's resourceVersion."""
    continue_token: Optional[str]
    """For the next page; None on the last one."""


class Response(NamedTuple):
    """The answer to a raw request."""

    status: int
    content_type: str
    retry_after_seconds: Optional[int]
    text: str

    def json(self) -> Any:
        """The body's value. Raises `ValueError` if it is not JSON."""
        return decode(self.text)


class Context:
    """The world of one reconcile."""

    def __init__(self, backend: Backend, request: Request) -> None:
        self._backend = backend
        self.request = request
        """What is being reconciled: its key, how often it failed before, and the reconcile's id."""

    # Reads

    def get(self, kind: KindLike, name: NameLike, namespace: Optional[str] = None, *, live: bool = False) -> Object:
        """Reads an object. `name` is a name (with `namespace`), a `Key`, or an object whose key is meant.

        Raises `NotFound` among others.
        """
        kind = kind_of(kind)
        key = named(name, kind, namespace)
        return decode_object(self._backend.get(kind, key, live), f"{kind} {key}")

    def get_or_none(
        self, kind: KindLike, name: NameLike, namespace: Optional[str] = None, *, live: bool = False
    ) -> Optional[Object]:
        """As `get`, but None if the object does not exist."""
        try:
            return self.get(kind, name, namespace, live=live)
        except NotFound:
            return None

    def list(
        self,
        kind: KindLike,
        namespace: Optional[str] = None,
        *,
        labels: Union[str, Mapping[str, str], None] = None,
        fields: Union[str, Mapping[str, str], None] = None,
        index: Optional[tuple[str, str]] = None,
        owner: Union[str, Mapping[str, Any], None] = None,
        page_size: Optional[int] = None,
        live: bool = False,
        projection: Sequence[str] = (),
    ) -> list[Object]:
        """Reads every page of a list.

        namespace: None lists all namespaces, or a cluster-scoped kind.
        labels, fields: selectors in the API server's syntax, or what must be equal, as a dict. Cached reads know the
            fields metadata.name and metadata.namespace only.
        index: (name, value) of an index that `Plugin.index` declares.
        owner: the object, or its uid, that is the controlling owner. Neither this nor `index` can be read live.
        projection: only these fields of each object, e.g. `.metadata.labels`; apiVersion, kind, name, namespace, uid
            and resourceVersion come always. Do not update such an object: what is not there would be removed.

        Raises `BadRequest` if a selector does not parse or an index is not declared, `Expired` if a live list went out
        of date between two pages.
        """
        items: list[Object] = []
        token: Optional[str] = None
        while True:
            page = self.list_page(
                kind, namespace, labels=labels, fields=fields, index=index, owner=owner, limit=page_size,
                continue_token=token, live=live, projection=projection,
            )  # fmt: skip
            items += page.items
            token = page.continue_token
            if not token:
                return items

    def list_page(
        self,
        kind: KindLike,
        namespace: Optional[str] = None,
        *,
        labels: Union[str, Mapping[str, str], None] = None,
        fields: Union[str, Mapping[str, str], None] = None,
        index: Optional[tuple[str, str]] = None,
        owner: Union[str, Mapping[str, Any], None] = None,
        limit: Optional[int] = None,
        continue_token: Optional[str] = None,
        live: bool = False,
        projection: Sequence[str] = (),
    ) -> Page:
        """Reads one page of a list, of at most `limit` objects; the arguments are those of `list`."""
        kind = kind_of(kind)
        if index is not None and owner is not None:
            raise ValueError(f"list of {kind}: index= and owner= exclude each other")
        if isinstance(owner, Mapping):
            uid = (owner.get("metadata") or {}).get("uid")
            if not uid:
                raise ValueError(f"list of {kind}: the owner {key_of(owner)} has no uid; read it from the API server")
            owner = str(uid)
        if isinstance(projection, str):
            raise TypeError(f"list of {kind}: projection is a list of paths, e.g. [{projection!r}]")
        query = ListQuery(
            namespace or None, _selector(labels), _selector(fields), index, owner, limit, continue_token, live,
            tuple(projection),
        )  # fmt: skip
        items, version, token = self._backend.list(kind, query)
        what = f"an item of the list of {kind}"
        return Page([decode_object(item, what) for item in items], version, token or None)

    # Writes

    def create(
        self, obj: Object, *, dry_run: bool = False, field_manager: Optional[str] = None, strict: bool = False
    ) -> Object:
        """Creates an object and returns it as stored.

        dry_run: validate and admit, but store nothing. strict: reject unknown fields instead of dropping them.
        field_manager: who owns the fields written; the plugin if left out.

        Raises `AlreadyExists`, or `Invalid` with its causes.
        """
        kind, key = kind_of(obj), key_of(obj)
        if not key.name and not obj.dig("metadata", "generateName"):
            raise ValueError(f"this {kind} has no metadata.name")
        what = f"{kind} {key}"
        options = WriteOptions(dry_run, field_manager, strict)
        return decode_object(self._backend.create(kind, key.namespace, encode(obj, what), options), what)

    def update(
        self, obj: Object, *, dry_run: bool = False, field_manager: Optional[str] = None, strict: bool = False
    ) -> Object:
        """Replaces an object and returns it as stored; its status stays. The options are those of `create`.

        Raises `Conflict` if the object has changed since it was read, `NotFound`, `Invalid`.
        """
        return self._replace(obj, WriteOptions(dry_run, field_manager, strict), False)

    def update_status(
        self, obj: Object, *, dry_run: bool = False, field_manager: Optional[str] = None, strict: bool = False
    ) -> Object:
        """Replaces an object's status, through the status subresource, and returns the object as stored.

        Raises `Conflict` if the object has changed since it was read; `NotFound` also if its kind has no status
        subresource.
        """
        return self._replace(obj, WriteOptions(dry_run, field_manager, strict), True)

    def _replace(self, obj: Object, options: WriteOptions, status: bool) -> Object:
        kind = kind_of(obj)
        key = named(obj, kind)
        what = f"{kind} {key}"
        return decode_object(self._backend.update(kind, key, encode(obj, what), options, status), what)

    def patch(
        self,
        kind: KindLike,
        name: NameLike,
        body: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]],
        *,
        namespace: Optional[str] = None,
        subresource: Optional[str] = None,
        dry_run: bool = False,
        field_manager: Optional[str] = None,
        strict: bool = False,
    ) -> Object:
        """Patches an object and returns it as stored: a dict is a merge patch (RFC 7386; None removes a field), a list
        is a JSON patch (RFC 6902). `subresource` is `status` or `scale`. For server-side apply see `apply`.

        Raises `NotFound`, `Invalid`, and `Conflict` if the patch names a stale resourceVersion.
        """
        kind = kind_of(kind)
        key = named(name, kind, namespace)
        patch_type = "merge" if isinstance(body, Mapping) else "json"
        query = PatchQuery(patch_type, encode(body, f"the patch of {kind} {key}"), subresource)
        options = WriteOptions(dry_run, field_manager, strict)
        return decode_object(self._backend.patch(kind, key, query, options), f"{kind} {key}")

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        force: bool = False,
        subresource: Optional[str] = None,
        dry_run: bool = False,
        field_manager: Optional[str] = None,
        strict: bool = False,
    ) -> Object:
        """Server-side apply: brings the fields that `obj` holds to their values, creates the object if there is none,
        and returns it as stored. `force` takes over fields from other managers.

        Raises `Conflict` if another manager owns a field, `Invalid`.
        """
        kind = kind_of(obj)
        key = named(obj, kind)
        query = PatchQuery("apply", encode(obj, f"{kind} {key}"), subresource, force)
        options = WriteOptions(dry_run, field_manager, strict)
        return decode_object(self._backend.patch(kind, key, query, options), f"{kind} {key}")

    @overload
    def delete(self, obj: Mapping[str, Any], /, *, uid: Optional[str] = None, resource_version: Optional[str] = None,
               grace_period_seconds: Optional[int] = None, propagation: Optional[Propagation] = None,
               dry_run: bool = False) -> None: ...  # fmt: skip

    @overload
    def delete(self, kind: KindLike, name: NameLike, namespace: Optional[str] = None, /, *, uid: Optional[str] = None,
               resource_version: Optional[str] = None, grace_period_seconds: Optional[int] = None,
               propagation: Optional[Propagation] = None, dry_run: bool = False) -> None: ...  # fmt: skip

    def delete(
        self,
        kind: Union[KindLike, Mapping[str, Any]],
        name: Optional[NameLike] = None,
        namespace: Optional[str] = None,
        /,
        *,
        uid: Optional[str] = None,
        resource_version: Optional[str] = None,
        grace_period_seconds: Optional[int] = None,
        propagation: Optional[Propagation] = None,
        dry_run: bool = False,
    ) -> None:
        """Deletes an object: `delete(obj)` this very one (a successor of the same name, with another uid, is left
        alone), `delete(kind, name, namespace)` whatever has this key. Returns once the API server has accepted it; the
        object may live on until its finalizers are gone.

        uid, resource_version: preconditions. grace_period_seconds: 0 ends it at once. propagation: what becomes of its
        dependents; the kind's default if left out.

        Raises `NotFound`, and `Conflict` if a precondition does not hold.
        """
        if name is None:
            if not isinstance(kind, Mapping):
                raise TypeError("delete(obj), or delete(kind, name, namespace)")
            name = kind
            uid = uid or (kind.get("metadata") or {}).get("uid")
        kind = kind_of(kind)
        key = named(name, kind, namespace)
        if propagation is not None and propagation not in _PROPAGATIONS:
            known = ", ".join(_PROPAGATIONS)
            raise ValueError(f"delete {kind} {key}: propagation is one of {known}, not {propagation!r}")
        query = DeleteQuery(uid, resource_version, grace_period_seconds, propagation, dry_run)
        self._backend.delete(kind, key, query)

    def create_or_update(self, obj: Object, mutate: Callable[[Object], Any]) -> tuple[Object, OperationResult]:
        """Reads the object that has `obj`'s kind and key, lets `mutate` set what should be, and creates or updates it
        if that made a difference (controller-runtime's `CreateOrUpdate`). Returns the object as stored.

        `mutate` gets the stored object, or `obj` itself if there is none yet. It should set only the fields it cares
        for, and not to values that the API server will rewrite. An absent field, None, and an empty list or dict do not
        differ. The status is not written.

        Raises what `mutate` raises; `Conflict` if the object has changed since the cache saw it; `TerminalError` if
        `mutate` changes the object's kind, name or namespace.
        """
        kind = kind_of(obj)
        key = named(obj, kind)
        stored = self.get_or_none(kind, key)
        target = obj if stored is None else stored
        before = None if stored is None else stored.copy()
        mutate(target)
        if (kind_of(target), key_of(target)) != (kind, key):
            raise TerminalError(f"create_or_update: {kind} {key} became {kind_of(target)} {key_of(target)}")
        if before is None:
            return self.create(target), OperationResult.CREATED
        if means_the_same(before, target):
            return target, OperationResult.UNCHANGED
        return self.update(target), OperationResult.UPDATED

    def finalizer(
        self,
        obj: Object,
        name: str,
        apply: Callable[[Object], Optional[Requeue]],
        cleanup: Callable[[Object], Optional[Requeue]],
    ) -> Optional[Requeue]:
        """Runs `apply` on an object that lives and `cleanup` on one that is being deleted, and returns their answer.

        - Before `apply` runs, the object has the finalizer, so no deletion can be missed.
        - `cleanup` returning None says that nothing is left: the finalizer is removed. With a requeue it stays.
        - An object that is being deleted and has not the finalizer is left alone.

        The finalizer is written by a merge patch that fails with `Conflict` if the object has changed meanwhile; the
        ServiceAccount needs the verb `patch` on the kind.
        """
        if not is_being_deleted(obj):
            if add_finalizer(obj, name):
                obj = self._write_finalizers(obj)
            return apply(obj)
        if not has_finalizer(obj, name):
            return None
        result = cleanup(obj)
        if result is None:
            remove_finalizer(obj, name)
            try:
                self._write_finalizers(obj)
            except NotFound:
                pass
        return result

    def _write_finalizers(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        change = {"resourceVersion": metadata.get("resourceVersion"), "finalizers": metadata.get("finalizers")}
        return self.patch(obj, obj, {"metadata": change})

    # The rest

    def event(
        self,
        obj: Mapping[str, Any],
        reason: str,
        note: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        action: str = "",
    ) -> None:
        """Records an Event about an object, as `kubectl describe` shows it. The host writes it in the background,
        aggregated and rate limited; it cannot fail.

        reason: why, a CamelCase word. note: for people. action: what was done, a CamelCase word.
        """
        if type not in ("Normal", "Warning"):
            raise ValueError(f"event {reason}: type is 'Normal' or 'Warning', not {type!r}")
        kind = kind_of(obj)
        uid = (obj.get("metadata") or {}).get("uid")
        self._backend.event(EventNote(kind, named(obj, kind), uid, type, reason, action, note))

    @property
    def config(self) -> Object:
        """The Plugin object's `spec.config`; empty if there is none. Read anew each time: keep it in a variable."""
        return decode_object(self._backend.config(), "the plugin's config")

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Union[str, Mapping[str, str], None] = None,
        body: Any = None,
        content_type: Optional[str] = None,
        accept: Optional[str] = None,
        cached: bool = False,
    ) -> Response:
        """Sends one HTTP request to the API server, for what the other calls have not: subresources, discovery.

        query: percent-encoded text, or a dict, which is encoded here. body: text, or a value that is sent as JSON.
        content_type: of a PATCH its patch type. cached: whether a GET may be answered from the host's cache.

        It raises nothing for a refusal: look at the answer's status.
        """
        text = body if body is None or isinstance(body, str) else encode(body, f"the body of {method} {path}")
        if isinstance(query, Mapping):
            query = "&".join(f"{_escaped(name)}={_escaped(value)}" for name, value in query.items())
        request = RawRequest(method.upper(), path, query or "", content_type, accept, text, cached)
        return Response(*self._backend.raw(request))


def _selector(value: Union[str, Mapping[str, str], None]) -> Optional[str]:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={text}" for name, text in value.items()) or None
    return value


def _escaped(text: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in str(text).encode())
