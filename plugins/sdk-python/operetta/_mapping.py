"""Watches with a function from an object to the keys that its events reconcile."""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Sequence

from ._json import decode_object
from ._kind import Key, Kind, NameLike, key_of
from ._object import Object


class MapEvent(NamedTuple):
    """A change of a watched object since its last mapping. The host passes it; a test may."""

    controller: str
    """The name of the controller that watches the object."""
    kind: Kind
    """The object's kind."""
    object: str
    """The object as JSON text; its last state if it is deleted."""
    old: Optional[str] = None
    """The object at its last mapping, if it has changed since."""


class MappedWatch(NamedTuple):
    """A watch with a function."""

    kind: Kind
    keys: Callable[[Object], Iterable[NameLike]]


def mapped_keys(watches: Sequence[MappedWatch], event: MapEvent) -> list[Key]:
    """Returns the keys of the new and of the old state, without repeats, of all watches of the kind.

    Raises:
        TypeError: A function returned something else than keys.
        ValueError: The object is not a JSON object.
    """
    found: dict[Key, None] = {}
    states = [state for state in (event.object, event.old) if state is not None]
    for watch in watches:
        if watch.kind != event.kind:
            continue
        for state in states:
            names = watch.keys(decode_object(state, f"the {event.kind.kind} to map"))
            if names is None or isinstance(names, str):
                raise TypeError(f"the mapping of {event.kind} returned {names!r} instead of a list of keys")
            found.update(dict.fromkeys(key_of(name) for name in names))
    return list(found)
