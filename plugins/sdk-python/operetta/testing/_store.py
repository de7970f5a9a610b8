"""The objects of a test cluster, with the API server's semantics of writes."""

from __future__ import annotations

import base64
from typing import Any, Iterator, Optional

from .._json import decode_object
from .._kind import Key, Kind, kind_of
from .._object import Object
from ..errors import (
    AlreadyExistsError,
    BadRequestError,
    Cause,
    ConflictError,
    InvalidError,
    NotFoundError,
    OtherApiError,
    Status,
    UnavailableError,
)

# Built-in kinds with neither a status subresource nor a generation.
_PLAIN = frozenset(
    (
        *("ConfigMap", "Secret", "ServiceAccount", "Endpoints", "EndpointSlice", "Event", "LimitRange", "PodTemplate"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "StorageClass", "Lease"),
    )
)
# Kubernetes' own API groups that accept updates without a resourceVersion.
_BUILT_IN = frozenset(
    ["", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io"]
)
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_SYSTEM = ("uid", "resourceVersion", "creationTimestamp", "generation", *_DELETION)
_STALE = "the object has been modified; please apply your changes to the latest version and try again"


class Store:
    """The stored objects. Each has a name, uid, resourceVersion and creationTimestamp."""

    def __init__(self) -> None:
        self._objects: dict[tuple[Kind, Key], Object] = {}
        # The last resourceVersion. It is also the clock, in seconds, and the last uid.
        self._version = 0
        self.without_status: set[Kind] = set()

    def clone(self) -> "Store":
        """Returns a copy for a dry run."""
        other = Store()
        other._objects, other._version = dict(self._objects), self._version
        other.without_status = self.without_status
        return other

    @property
    def version(self) -> str:
        """The collection's resourceVersion."""
        return str(self._version)

    def get(self, kind: Kind, key: Key) -> Object:
        """Returns the stored object, which the caller must not change.

        Raises:
            NotFoundError: The object does not exist.
        """
        try:
            return self._objects[(kind, key)]
        except KeyError:
            raise NotFoundError(f"{_described(kind, key)} not found") from None

    def of_kind(self, kind: Kind) -> Iterator[tuple[Key, Object]]:
        """Returns the objects of a kind, sorted by namespace, then name."""
        found = [(key, obj) for (stored, key), obj in self._objects.items() if stored == kind]
        return iter(sorted(found, key=lambda item: (item[0].namespace or "", item[0].name)))

    def seed(self, kind: Kind, key: Key, text: str) -> None:
        """Adds an object unchanged.

        Raises:
            AlreadyExistsError: An object of this kind and key exists.
            BadRequestError: The object has no name.
        """
        obj = _read(kind, key, text)
        if not key.name:
            raise BadRequestError("the object has no name")
        if (kind, key) in self._objects:
            raise AlreadyExistsError(f"{_described(kind, key)} already exists")
        self._stamp(kind, obj, keep=True)
        self._objects[(kind, key)] = obj

    def create(self, kind: Kind, namespace: Optional[str], text: str) -> Object:
        """Creates an object.

        Raises:
            AlreadyExistsError: An object of this kind and key exists.
            BadRequestError: The object does not match the request.
            UnavailableError: The object has a resourceVersion.
        """
        obj = _read(kind, Key(namespace, ""), text)
        metadata = obj.ensure("metadata")
        if not metadata.get("name"):
            raise unsupported("generateName")
        key = Key(namespace, metadata["name"])
        if metadata.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise UnavailableError(Status(500, "InternalError", message))
        for system in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"):
            metadata.pop(system, None)
        if (kind, key) in self._objects:
            raise AlreadyExistsError(f"{_described(kind, key)} already exists")
        if self._has_status(kind):
            obj.pop("status", None)
        self._stamp(kind, obj, keep=False)
        self._objects[(kind, key)] = obj
        return obj

    def update(self, kind: Kind, key: Key, text: str, status: bool) -> Object:
        """Replaces an object or its status.

        Raises:
            NotFoundError: The object or the status subresource does not exist.
            ConflictError: The uid or resourceVersion is stale.
            InvalidError: The update is invalid.
        """
        old = self.get(kind, key)
        given = _read(kind, key, text)
        if status and not self._has_status(kind):
            raise NotFoundError(f"{kind} has no status subresource")
        self._check_current(kind, key, old, given)
        new = given
        if status:
            new = _with_status(old.copy(), given)
        elif self._has_status(kind):
            new = _with_status(given, old)
        for system in _SYSTEM:
            new["metadata"].pop(system, None)
            if system in old["metadata"]:
                new["metadata"][system] = old["metadata"][system]
        if "deletionTimestamp" in old["metadata"] and set(_finalizers(new)) - set(_finalizers(old)):
            message = "no new finalizers can be added if the object is being deleted"
            raise invalid(kind, key, "metadata.finalizers", message)
        if new == old:
            return old
        if not _is_plain(kind) and self._desired(kind, old) != self._desired(kind, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return self._put(kind, key, new)

    def delete(self, kind: Kind, key: Key, uid: Optional[str], version: Optional[str]) -> None:
        """Removes an object, or sets its deletionTimestamp if it has finalizers.

        Raises:
            NotFoundError: The object does not exist.
            ConflictError: A precondition does not hold.
        """
        obj = self.get(kind, key)
        for name, wanted in (("uid", uid), ("resourceVersion", version)):
            actual = obj["metadata"].get(name)
            if wanted and wanted != actual:
                why = f"Precondition failed: {name} in precondition: {wanted}, in object meta: {actual}"
                raise _conflict(kind, key, why)
        if not _finalizers(obj):
            self._version += 1
            del self._objects[(kind, key)]
        elif "deletionTimestamp" not in obj["metadata"]:
            obj = obj.copy()
            obj["metadata"].update(deletionTimestamp=self._now(), deletionGracePeriodSeconds=0)
            if not _is_plain(kind):
                obj["metadata"]["generation"] = obj["metadata"].get("generation", 0) + 1
            self._put(kind, key, obj)

    def _put(self, kind: Kind, key: Key, obj: Object) -> Object:
        """Stores a new version. An object that is being deleted is removed with its last finalizer."""
        self._version += 1
        obj["metadata"]["resourceVersion"] = self.version
        if "deletionTimestamp" in obj["metadata"] and not _finalizers(obj):
            del self._objects[(kind, key)]
        else:
            self._objects[(kind, key)] = obj
        return obj

    def _stamp(self, kind: Kind, obj: Object, keep: bool) -> None:
        """Sets the fields that the API server sets on a new object; `keep` keeps existing values."""
        self._version += 1
        system: dict[str, Any] = {
            "uid": f"00000000-0000-4000-8000-{self._version:012}",
            "resourceVersion": self.version,
            "creationTimestamp": self._now(),
        }
        if not _is_plain(kind):
            system["generation"] = 1
        metadata = obj.ensure("metadata")
        for name, value in system.items():
            if not keep or not metadata.get(name):
                metadata[name] = value

    def _now(self) -> str:
        """Returns the time of a clock that advances with each write and is the same in each run."""
        seconds = self._version % 86_400
        return f"2030-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"

    def _has_status(self, kind: Kind) -> bool:
        return not _is_plain(kind) and kind not in self.without_status

    def _desired(self, kind: Kind, obj: Object) -> dict[str, Any]:
        """Returns the part of an object whose changes increment the generation."""
        excluded = ("metadata", "status") if self._has_status(kind) else ("metadata",)
        return {name: value for name, value in obj.items() if name not in excluded}

    def _check_current(self, kind: Kind, key: Key, old: Object, given: Object) -> None:
        """Checks the uid and resourceVersion of an update against the stored object (optimistic concurrency)."""
        uid, version = given.get_nested("metadata", "uid"), given.get_nested("metadata", "resourceVersion")
        if uid and uid != old["metadata"]["uid"]:
            raise _conflict(kind, key, f"Precondition failed: UID in precondition: {uid}")
        if not version and kind.group not in _BUILT_IN:
            raise invalid(kind, key, "metadata.resourceVersion", "must be specified for an update")
        if version and version != old["metadata"]["resourceVersion"]:
            raise _conflict(kind, key, _STALE)


def _read(kind: Kind, key: Key, text: str) -> Object:
    """Decodes a sent object and checks that it matches the request."""
    obj = decode_object(text, f"{kind} {key}")
    if kind_of(obj) != kind:
        raise BadRequestError(
            f"the object is a {obj.get('apiVersion')} {obj.get('kind')}, the request is about a {kind}"
        )
    metadata = obj.ensure("metadata")
    for name in [name for name, value in metadata.items() if value is None]:
        del metadata[name]
    namespace = metadata.get("namespace")
    if namespace and namespace != key.namespace:
        raise BadRequestError("the namespace of the provided object does not match the namespace sent on the request")
    name = metadata.get("name") or ""
    if key.name and name != key.name:
        raise BadRequestError(f"the name of the object ({name}) does not match the name on the URL ({key.name})")
    if key.namespace:
        metadata["namespace"] = key.namespace
    _drop_nulls(obj, kind.group in _BUILT_IN, "")
    if kind == Kind("v1", "Secret") and "stringData" in obj:
        for name, value in obj.pop("stringData").items():
            obj.ensure("data")[name] = base64.b64encode(str(value).encode()).decode()
    return obj


def _drop_nulls(value: Any, built_in: bool, path: str) -> None:
    """Removes nulls from built-in kinds, which treat them as absent. In a custom resource it depends on the schema."""
    if isinstance(value, dict):
        for name in [name for name, inner in value.items() if inner is None]:
            if not built_in:
                raise unsupported(f"null at {path}.{name} (leave the field out when it is None)")
            del value[name]
        for name, inner in value.items():
            _drop_nulls(inner, built_in, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            _drop_nulls(inner, built_in, f"{path}[]")


def _with_status(obj: Object, source: Object) -> Object:
    obj.pop("status", None)
    if "status" in source:
        obj["status"] = source["status"]
    return obj


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _is_plain(kind: Kind) -> bool:
    return kind.kind in _PLAIN and kind.group in _BUILT_IN | {"coordination.k8s.io", "discovery.k8s.io"}


def _described(kind: Kind, key: Key) -> str:
    """Returns `KIND.GROUP "NAME"` for messages. The API server has the plural there, which the kit does not know."""
    return f'{kind.kind}{"." if kind.group else ""}{kind.group} "{key.name}"'


def _conflict(kind: Kind, key: Key, why: str) -> ConflictError:
    return ConflictError(f"Operation cannot be fulfilled on {_described(kind, key)}: {why}")


def invalid(kind: Kind, key: Key, field: str, why: str) -> InvalidError:
    """Returns the API server's error for an object with an invalid field."""
    cause = Cause("FieldValueInvalid", why, field)
    return InvalidError(f"{_described(kind, key)} is invalid: {field}: {why}", causes=(cause,))


def unsupported(what: str) -> OtherApiError:
    """Returns the error for a request that the kit does not implement."""
    return OtherApiError(Status(501, "", f"{what}: not supported by the test kit; test it on an API server"))
