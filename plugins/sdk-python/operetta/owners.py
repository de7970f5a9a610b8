"""Owner references and finalizers (controller-runtime's `controllerutil`)."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ._kind import key_of, kind_of
from ._object import Object
from .errors import AlreadyOwnedError


def owner_reference(owner: Mapping[str, Any]) -> Object:
    """Returns the reference of a controlling owner: deleting the owner deletes the child.

    Raises:
        ValueError: The owner has no uid, as it was not read from the API server.
    """
    kind, key = kind_of(owner), key_of(owner)
    uid = (owner.get("metadata") or {}).get("uid")
    if not uid:
        raise ValueError(f"{kind.kind} {key} has no uid: an owner must be read from the API server")
    return Object(
        apiVersion=kind.api_version, kind=kind.kind, name=key.name, uid=uid, controller=True, blockOwnerDeletion=True
    )


def controller_of(child: Mapping[str, Any]) -> Optional[Any]:
    """Returns the reference to an object's controlling owner, or None."""
    for reference in (child.get("metadata") or {}).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None


def is_controlled_by(child: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Reports whether `owner` controls `child`. Compares uids, so a new object of the same name is another owner."""
    reference = controller_of(child)
    uid = (owner.get("metadata") or {}).get("uid")
    return reference is not None and bool(uid) and reference.get("uid") == uid


def set_controller_reference(owner: Mapping[str, Any], child: Object) -> None:
    """Makes `owner` the controlling owner of `child`, as `kopf.append_owner_reference` does.

    The child's events then reconcile the owner, and the child is garbage collected with it. An existing reference to
    `owner` is updated.

    Raises:
        AlreadyOwnedError: Another object controls the child.
        ValueError: The owner was not read from the API server, or is in another namespace, in which case Kubernetes
            would garbage collect the child.
    """
    reference = owner_reference(owner)
    owner_key, child_key = key_of(owner), key_of(child)
    if owner_key.namespace and owner_key.namespace != child_key.namespace:
        raise ValueError(f"{reference['kind']} {owner_key} cannot own {child_key}: it is in another namespace")
    other = controller_of(child)
    if other is not None and not _same_object(other, reference):
        raise AlreadyOwnedError(
            f"{kind_of(child).kind} {child_key} is already controlled by {other.get('kind')} {other.get('name')}"
        )
    metadata = child["metadata"]
    references = metadata.get("ownerReferences") or ()
    kept = [other for other in references if not _same_object(other, reference)]
    position = next((at for at, other in enumerate(references) if _same_object(other, reference)), len(kept))
    kept.insert(position, reference)
    metadata["ownerReferences"] = kept


def _same_object(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Reports whether two references name one object. Versions of the API group are ignored."""
    return (_group(one), one.get("kind"), one.get("name")) == (_group(other), other.get("kind"), other.get("name"))


def _group(reference: Mapping[str, Any]) -> str:
    return str(reference.get("apiVersion", "")).rpartition("/")[0]


def is_being_deleted(obj: Mapping[str, Any]) -> bool:
    """Reports whether the object has a deletionTimestamp."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def has_finalizer(obj: Mapping[str, Any], name: str) -> bool:
    """Reports whether the object has the finalizer."""
    return name in ((obj.get("metadata") or {}).get("finalizers") or ())


def add_finalizer(obj: Object, name: str) -> bool:
    """Adds a finalizer to the object in memory. Returns True if that changed it."""
    if has_finalizer(obj, name):
        return False
    metadata = obj.ensure("metadata")
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), name]
    return True


def remove_finalizer(obj: Object, name: str) -> bool:
    """Removes a finalizer from the object in memory. Returns True if that changed it."""
    if not has_finalizer(obj, name):
        return False
    obj["metadata"]["finalizers"] = [other for other in obj["metadata"]["finalizers"] if other != name]
    return True
