"""Prepares the interpreter for the snapshot of its memory, so that a fresh instance writes to few pages of it.

Each page that an instance writes is copied from the snapshot first, and cleared afterwards. Three habits of CPython
spread writes over all of its memory:

- An object counts its references in itself, so whoever uses it writes to its page. The build makes the objects of the
  snapshot immortal (PEP 683), which turns the counting off. This module records where they are, and `_immortal`
  changes the component.
- An interpreter that runs code for the first times specializes it, in its place. `_rehearsal` does that before.
- The allocator hands out the gaps between objects first. This module fills them, so that the objects of a reconcile lie
  side by side, behind all others.
"""

from __future__ import annotations

import gc
import sys
from types import CodeType
from typing import Any

from ._rehearsal import rehearse

# The reverse begins a record. This module's own constants are in the memory, too, and must not look like one.
MARK = b":stcejbo atterepo:"
# CPython's `_Py_IMMORTAL_INITIAL_REFCNT` by version, for pointers of 32 bits.
_IMMORTAL = {(3, 14): 5 << 28}
# The collector first runs after so many objects of a reconcile.
_THRESHOLD = 50_000
# The memory behind the last object, which an instance can use without growing its memory.
_RESERVE = 1 << 20

# MARK reversed, the count of an immortal object, the number of objects, and the addresses of each and of its type.
_record = bytearray()
_gaps: list[object] = []


def prepare() -> None:
    """Prepares for the snapshot. Objects that exist now live as long as the instance."""
    rehearse()
    gc.collect()
    if sys.maxsize < 1 << 32:  # in WebAssembly
        if immortal := _IMMORTAL.get(sys.version_info[:2]):
            _record_objects(immortal)
        _fill_gaps()
    # The collector then neither scans these objects nor writes to their pages.
    gc.freeze()
    gc.set_threshold(_THRESHOLD)


def _record_objects(immortal: int) -> None:
    """Records the addresses of all objects that the collector reaches."""
    global _record
    pending: list[Any] = gc.get_objects()
    # A bit for each eight bytes of memory: a set of addresses would leave megabytes of garbage in the snapshot.
    seen = bytearray()
    record = bytearray(MARK)
    record.reverse()
    record += immortal.to_bytes(4, "little") + bytes(4)
    begin = len(record)
    while pending:
        item = pending.pop()
        address = id(item)
        byte, bit = address >> 6, 1 << (address >> 3 & 7)
        if byte >= len(seen):
            seen.extend(bytes(byte + 1 - len(seen)))
        if seen[byte] & bit:
            continue
        seen[byte] |= bit
        record += address.to_bytes(4, "little") + id(type(item)).to_bytes(4, "little")
        pending.extend(gc.get_referents(item))
        if isinstance(item, CodeType):
            # The collector does not know what code refers to.
            pending += (
                item.co_consts,
                item.co_names,
                item.co_linetable,
                item.co_filename,
                item.co_name,
                item.co_qualname,
            )
    seen[:] = bytes(len(seen))
    record[begin - 4 : begin] = ((len(record) - begin) // 8).to_bytes(4, "little")
    _record = record


def _fill_gaps() -> None:
    """Allocates objects in all gaps of the heap, the largest first."""
    end = id(bytes(_RESERVE))
    size = 1 << 16
    while size:
        # The smallest is an object without contents: `bytes(1)` exists once only.
        item = bytes(size) if size > 1 else object()
        if id(item) < end:
            _gaps.append(item)
        else:
            size //= 2
