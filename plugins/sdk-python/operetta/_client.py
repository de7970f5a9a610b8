"""The client for the API server, as the plugin's ServiceAccount.

Reads come from the host's cache unless they are live. Cached reads see this plugin's own writes at once. A failed call
raises the subclass of `ApiError` for its cause.
"""

from __future__ import annotations

from typing import Any, Literal, Mapping, Optional, Sequence, Union, overload

from ._backend import Backend, DeleteQuery, ListQuery, PatchQuery, WriteOptions
from ._json import decode_object, encode
from ._kind import KindLike, NameLike, key_of, kind_of, named
from ._manifest import selector_text
from ._object import Object
from ._results import Page
from .errors import NotFoundError

Propagation = Literal["Background", "Foreground", "Orphan"]
_PROPAGATIONS = ("Background", "Foreground", "Orphan")


class Client:
    """Reads and writes objects."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    # Reads

    def get(self, kind: KindLike, name: NameLike, namespace: Optional[str] = None, *, live: bool = False) -> Object:
        """Reads an object.

        Args:
            kind: Its kind.
            name: A name (with `namespace`), a `Key`, or an object, whose key is taken.
            namespace: Its namespace; None for cluster-scoped kinds.
            live: Reads from the API server instead of the host's cache.

        Raises:
            NotFoundError: The object does not exist.
            ApiError: The read failed.
        """
        kind = kind_of(kind)
        key = named(name, kind, namespace)
        return decode_object(self._backend.get(kind, key, live), f"{kind} {key}")

    def get_or_none(
        self, kind: KindLike, name: NameLike, namespace: Optional[str] = None, *, live: bool = False
    ) -> Optional[Object]:
        """Reads an object as `get` does, and returns None if it does not exist."""
        try:
            return self.get(kind, name, namespace, live=live)
        except NotFoundError:
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

        Args:
            kind: The kind of the objects.
            namespace: None lists all namespaces, or a cluster-scoped kind.
            labels: A label selector in the API server's syntax, or a dict of equal labels.
            fields: A field selector, likewise. Cached reads support metadata.name and metadata.namespace only.
            index: The (name, value) of an index that `Plugin.index` declares.
            owner: The controlling owner, or its uid. Neither this nor `index` can be read live.
            page_size: The number of objects per page; the host's default if None.
            live: Reads from the API server instead of the host's cache.
            projection: Keeps only these fields of each object, e.g. `.metadata.labels`, besides apiVersion, kind, name,
                namespace, uid and resourceVersion. Do not update such an object: the other fields would be removed.

        Raises:
            BadRequestError: A selector does not parse, or an index is not declared.
            ExpiredError: A live list expired between two pages.
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
        """Reads one page of a list, of at most `limit` objects. The other arguments are those of `list`."""
        kind = kind_of(kind)
        if index is not None and owner is not None:
            raise ValueError(f"list of {kind}: index= and owner= are mutually exclusive")
        if isinstance(owner, Mapping):
            uid = (owner.get("metadata") or {}).get("uid")
            if not uid:
                raise ValueError(f"list of {kind}: the owner {key_of(owner)} has no uid; read it from the API server")
            owner = str(uid)
        if isinstance(projection, str):
            raise TypeError(f"list of {kind}: projection is a list of paths, e.g. [{projection!r}]")
        query = ListQuery(
            namespace or None, selector_text(labels), selector_text(fields), index, owner, limit, continue_token, live,
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

        Args:
            obj: The object.
            dry_run: Validates and admits the object, but stores nothing.
            field_manager: The manager of the fields written; the plugin if None.
            strict: Rejects unknown fields instead of dropping them.

        Raises:
            AlreadyExistsError: An object of this name exists.
            InvalidError: The object is invalid; `causes` names the fields.
        """
        kind, key = kind_of(obj), key_of(obj)
        if not key.name and not obj.get_nested("metadata", "generateName"):
            raise ValueError(f"this {kind} has no metadata.name")
        what = f"{kind} {key}"
        options = WriteOptions(dry_run, field_manager, strict)
        return decode_object(self._backend.create(kind, key.namespace, encode(obj, what), options), what)

    def update(
        self, obj: Object, *, dry_run: bool = False, field_manager: Optional[str] = None, strict: bool = False
    ) -> Object:
        """Replaces an object, except for its status, and returns it as stored. The options are those of `create`.

        Raises:
            ConflictError: The object has changed since it was read.
            NotFoundError: The object does not exist.
            InvalidError: The object is invalid.
        """
        return self._replace(obj, WriteOptions(dry_run, field_manager, strict), False)

    def update_status(
        self, obj: Object, *, dry_run: bool = False, field_manager: Optional[str] = None, strict: bool = False
    ) -> Object:
        """Replaces an object's status through the status subresource, and returns the object as stored.

        Raises:
            ConflictError: The object has changed since it was read.
            NotFoundError: The object does not exist, or its kind has no status subresource.
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
        """Patches an object and returns it as stored. `apply` does server-side apply.

        Args:
            kind: The object's kind.
            name: A name (with `namespace`), a `Key`, or an object, whose key is taken.
            body: A dict is a merge patch (RFC 7386; None removes a field), a list is a JSON patch (RFC 6902).
            namespace: The object's namespace.
            subresource: `status` or `scale`.
            dry_run: See `create`, as for the other options.

        Raises:
            NotFoundError: The object does not exist.
            InvalidError: The patched object is invalid, or the JSON patch cannot be applied.
            ConflictError: The patch names a stale resourceVersion.
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
        """Applies an object server-side and returns it as stored.

        Sets the fields that `obj` has, and creates the object if it does not exist.

        Args:
            obj: The fields to set, with apiVersion, kind and metadata.name.
            force: Takes over fields of other managers.
            subresource: `status` or `scale`.
            dry_run: See `create`, as for the other options.

        Raises:
            ConflictError: Another manager owns a field.
            InvalidError: The object is invalid.
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
        """Deletes an object: `delete(obj)` or `delete(kind, name, namespace)`.

        `delete(obj)` deletes this object only: another object of the same name has another uid and is kept. The call
        returns once the API server has accepted it; the object exists until its finalizers are removed.

        Args:
            kind: The object, or its kind.
            name: With a kind: a name, a `Key`, or an object, whose key is taken.
            namespace: With a name: the namespace.
            uid: A precondition on the uid.
            resource_version: A precondition on the resourceVersion.
            grace_period_seconds: 0 deletes at once.
            propagation: The deletion policy of dependents; the kind's default if None.
            dry_run: Validates the deletion only.

        Raises:
            NotFoundError: The object does not exist.
            ConflictError: A precondition does not hold.
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
