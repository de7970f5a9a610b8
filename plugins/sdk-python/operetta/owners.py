"""Owner references and finalizers: who made an object, who collects it, and cleaning up before it goes
(controller-runtime's `controllerutil`)."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ._kind import key_of, kind_of
from ._object import Object
from .errors import AlreadyOwned


def owner_reference(owner: Mapping[str, Any]) -> Object:
    """The reference by which `owner` controls a child: deleting the owner deletes the child.

    Raises `ValueError` if the owner has no uid: only objects read from the API server can own.
    """
    kind, key = kind_of(owner), key_of(owner)
    uid = (owner.get("metadata") or {}).get("uid")
    if not uid:
        raise ValueError(f"{kind.kind} {key} has no uid: only objects read from the API server can own")
    return Object(
        apiVersion=kind.api_version, kind=kind.kind, name=key.name, uid=uid, controller=True, blockOwnerDeletion=True
    )


def controller_of(child: Mapping[str, Any]) -> Optional[Any]:
    """The reference to the owner that controls an object; None if none does."""
    for reference in (child.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None


def is_controlled_by(child: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether `owner` controls `child`. Two objects of one name are told apart by their uids."""
    reference = controller_of(child)
    uid = (owner.get("metadata") or {}).get("uid")
    return reference is not None and bool(uid) and reference.get("uid") == uid


def set_controller_reference(owner: Mapping[str, Any], child: Object) -> None:
    """Makes `owner` the controlling owner of `child`: the child's events enqueue it, and it takes the child with it
    when it goes. A reference of `owner` that is there already is brought up to date.

    Raises `AlreadyOwned` if another object controls the child, `ValueError` if the owner was not read from the API
    server, or is in another namespace, where Kubernetes would collect the child at once.
    """
    reference = owner_reference(owner)
    owner_key, child_key = key_of(owner), key_of(child)
    if owner_key.namespace and owner_key.namespace != child_key.namespace:
        raise ValueError(f"{reference['kind']} {owner_key} cannot own {child_key}: another namespace")
    other = controller_of(child)
    if other is not None and not _same_object(other, reference):
        raise AlreadyOwned(
            f"{kind_of(child).kind} {child_key} is already controlled by {other.get('kind')} {other.get('name')}"
        )
    metadata = child["metadata"]
    kept = [other for other in metadata.get("ownerReferences") or () if not _same_object(other, reference)]
    at = next(
        (at for at, other in enumerate(metadata.get("ownerReferences") or ()) if _same_object(other, reference)),
        len(kept),
    )
    kept.insert(at, reference)
    metadata["ownerReferences"] = kept


def _same_object(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two references name one object; the versions of its group do not matter."""
    return (_group(one), one.get("kind"), one.get("name")) == (_group(other), other.get("kind"), other.get("name"))


def _group(reference: Mapping[str, Any]) -> str:
    return str(reference.get("apiVersion", "")).rpartition("/")[0]


def is_being_deleted(obj: Mapping[str, Any]) -> bool:
    """Whether the object has a deletionTimestamp."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def has_finalizer(obj: Mapping[str, Any], name: str) -> bool:
    """Whether the object has the finalizer."""
    return name in ((obj.get("metadata") or {}).get("finalizers") or ())


def add_finalizer(obj: Object, name: str) -> bool:
    """Adds a finalizer to the object in hand; tells whether that changed it."""
    if has_finalizer(obj, name):
        return False
    metadata = obj.ensure("metadata")
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), name]
    return True


def remove_finalizer(obj: Object, name: str) -> bool:
    """Removes a finalizer from the object in hand; tells whether that changed it."""
    if not has_finalizer(obj, name):
        return False
    obj["metadata"]["finalizers"] = [other for other in obj["metadata"]["finalizers"] if other != name]
    return True
