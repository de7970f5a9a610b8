"""Create-or-update as a context manager: the block sets the desired fields, its end writes the changed object."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Optional

from ._kind import key_of, kind_of, named
from ._object import Object, semantically_equal
from ._results import OperationResult
from .errors import TerminalError

if TYPE_CHECKING:
    from ._client import Client


class CreateOrUpdate:
    """The context manager that `Context.create_or_update` returns.

    Entering it reads the object and returns the stored one, or the given one if there is none yet. Leaving it without
    an exception creates the object, updates it, or writes nothing if nothing differs. After that the object in the
    block is as stored, and `result` names the write. An exception in the block leaves the cluster unchanged.
    """

    def __init__(self, client: Client, obj: Object) -> None:
        self._client = client
        self._kind = kind_of(obj)
        self._key = named(obj, self._kind)
        self._before: Optional[Object] = None
        self.object = obj
        """The object in the block; after the block the object as stored."""
        self.result = OperationResult.UNCHANGED
        """The write that the block's end made."""

    @property
    def changed(self) -> bool:
        """Reports whether the block's end created or updated the object."""
        return self.result != OperationResult.UNCHANGED

    def __enter__(self) -> Object:
        stored = self._client.get_or_none(self._kind, self._key)
        if stored is not None:
            self._before = stored.copy()
            self.object = stored
        return self.object

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None:
            self._write()

    def _write(self) -> None:
        obj = self.object
        if (kind_of(obj), key_of(obj)) != (self._kind, self._key):
            raise TerminalError(f"create_or_update: {self._kind} {self._key} became {kind_of(obj)} {key_of(obj)}")
        if self._before is None:
            written = self._client.create(obj)
            self.result = OperationResult.CREATED
        elif semantically_equal(self._before, obj):
            return
        else:
            written = self._client.update(obj)
            self.result = OperationResult.UPDATED
        # In place: the block's variable keeps its identity and sees the stored fields.
        obj.clear()
        obj.update(written)
