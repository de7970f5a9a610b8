"""Makes the objects in a component's snapshot immortal. `_snapshot` has the reason, and records where they are."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, Optional

from ._binary import Reader, Section, changed
from ._module import read_data
from ._snapshot import MARK

_MARK = MARK[::-1]
_DATA = 11
# A greater number in the place of a reference count is a pointer of the allocator: the object was freed.
_GREATEST_COUNT = 0xFFFF


def apply(binary: bytes) -> bytes:
    """Returns the component with the recorded objects immortal and without the record; unchanged if it has no record.

    Raises:
        ValueError: The binary is neither a module nor a component, or its memory is not that of a snapshot.
    """
    return changed(binary, _changed)


def _changed(is_module: bool, section: Section) -> bytes:
    is_snapshot = is_module and section.id == _DATA and _MARK in section.body
    return _Memory(section.body).immortal() if is_snapshot else section.body


class _Segment(NamedTuple):
    """A data segment: the address of its first byte, the position of that byte in the section, and its length."""

    address: int
    begin: int
    length: int


class _Memory:
    """The memory that a data section initializes."""

    def __init__(self, body: bytes) -> None:
        self._body = bytearray(body)
        reader = Reader(body)
        segments = [_segment(reader) for _ in range(reader.u32())]
        self._segments = sorted(segments)
        self._starts = [segment.address for segment in self._segments]

    def immortal(self) -> bytes:
        """Returns the section with the recorded objects immortal and without the record."""
        begin, end = self._record()
        record = Reader(bytes(self._body[begin:end]), len(_MARK))
        immortal, _count = record.take(4), record.take(4)
        while record.at < len(record.data):
            address, kind = int.from_bytes(record.take(4), "little"), record.take(4)
            at = self._position(address, 8)
            # An object that was freed since has another type in its place, or a pointer instead of a count. Static
            # objects have always been immortal.
            if at is not None and self._body[at + 4 : at + 8] == kind and 0 < self._word(at) <= _GREATEST_COUNT:
                self._body[at : at + 4] = immortal
        self._body[begin:end] = bytes(end - begin)
        return bytes(self._body)

    def _record(self) -> tuple[int, int]:
        """Returns the begin and end of the record. Unfinished copies of it have no objects."""
        begin = self._body.find(_MARK)
        while begin >= 0:
            entries = begin + len(_MARK) + 8
            count = self._word(entries - 4)
            end = entries + 8 * count
            if count and any(
                segment.begin <= begin and end <= segment.begin + segment.length for segment in self._segments
            ):
                return begin, end
            begin = self._body.find(_MARK, begin + 1)
        raise ValueError("the record of the objects is incomplete")

    def _word(self, at: int) -> int:
        return int.from_bytes(self._body[at : at + 4], "little")

    def _position(self, address: int, size: int) -> Optional[int]:
        """Returns the position of `size` bytes of the memory; None if no segment has all of them."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        segment = self._segments[index]
        offset = address - segment.address
        return segment.begin + offset if offset + size <= segment.length else None


def _segment(reader: Reader) -> _Segment:
    data = read_data(reader)
    if data.offset is None or data.offset[:1] != b"\x41":
        raise ValueError("unsupported data segment that is not active at a constant address")
    offset = Reader(data.offset, 1)
    address = offset.s64()
    if offset.at != len(data.offset):
        raise ValueError("unsupported data segment at a computed address")
    return _Segment(address, reader.at - len(data.bytes), len(data.bytes))
