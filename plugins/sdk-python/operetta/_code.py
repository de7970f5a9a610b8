"""Rewrites the indexes of functions, types, globals and data segments in a function's code.

Most instructions have no such index. One regular expression skips runs of them, so seven megabytes take seconds.
Instructions that the interpreter's components do not use (vectors, atomics, exceptions) are refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from ._binary import Reader, s64, u32

_LEB = rb"[\x80-\xff]*[\x00-\x7f]"
# The instructions without an index to rewrite: those without immediates; those with one number; loads and stores;
# blocks without a type index; floating point constants; memory.size and memory.grow; trunc_sat, memory.copy and
# memory.fill.
_PLAIN = re.compile(
    rb"(?:[\x00\x01\x05\x0b\x0f\x1a\x1b\x45-\xc4\xd1]"
    rb"|[\x0c\x0d\x20-\x22\x41\x42]" + _LEB + rb"|[\x28-\x3e]" + _LEB + _LEB + rb"|[\x02-\x04][\x40\x6f\x70\x7b-\x7f]"
    rb"|\x43.{4}|\x44.{8}|[\x3f\x40]\x00|\xfc[\x00-\x07]|\xfc\x0a\x00\x00|\xfc\x0b\x00)*+",
    re.DOTALL,
)


class Indexes(NamedTuple):
    """The new index for each old index of a module; bytes are encoded indexes."""

    functions: Sequence[bytes]
    types: Sequence[int]
    globals: Sequence[bytes]
    first_data: int
    """The new index of the module's first data segment."""


def rewrite(body: bytes, indexes: Indexes) -> bytes:
    """Returns a function's body, locals and code, with new indexes.

    Raises:
        ValueError: An instruction is not supported.
    """
    reader = Reader(body)
    for _ in range(reader.u32()):
        reader.u32()
        reader.byte()
    at = reader.at
    out = [body[:at]]
    # Local names: this loop runs for millions of instructions.
    functions = indexes.functions
    globals_ = indexes.globals
    plain = _PLAIN.match
    size = len(body)
    while True:
        run = plain(body, at)
        assert run is not None  # the match may be empty
        end = run.end()
        if end > at:
            out.append(body[at:end])
        if end >= size:
            return b"".join(out)
        reader.at = end + 1
        code = body[end]
        if code in (0x10, 0x12, 0xD2):  # call, return_call, ref.func
            out += (body[end : end + 1], functions[reader.u32()])
        elif code in (0x23, 0x24):  # global.get, global.set
            out += (body[end : end + 1], globals_[reader.u32()])
        else:
            out.append(_rare(code, reader, end, indexes))
        at = reader.at


def _rare(code: int, reader: Reader, begin: int, indexes: Indexes) -> bytes:
    """Rewrites an infrequent instruction."""
    head = reader.data[begin : begin + 1]
    if code in (0x11, 0x13):  # call_indirect, return_call_indirect
        kind = u32(indexes.types[reader.u32()])
        return head + kind + _only(reader, "table")
    if code in (0x02, 0x03, 0x04):  # a block whose type is an index
        return head + s64(indexes.types[reader.s64()])
    if code == 0x0E:  # br_table
        reader.vector(reader.u32)
        reader.u32()
        return reader.since(begin)
    if code in (0x25, 0x26):  # table.get, table.set
        return head + _only(reader, "table")
    if code == 0x1C:  # select with a type
        reader.vector(reader.byte)
        return reader.since(begin)
    if code == 0xD0:  # ref.null
        reader.byte()
        return reader.since(begin)
    if code == 0xFC:
        operation = reader.u32()
        if operation == 8:  # memory.init
            return head + u32(8) + u32(indexes.first_data + reader.u32()) + _only(reader, "memory")
        if operation == 9:  # data.drop
            return head + u32(9) + u32(indexes.first_data + reader.u32())
        if operation in (15, 16, 17):  # table.grow, table.size, table.fill
            return head + u32(operation) + _only(reader, "table")
        raise ValueError(f"unsupported instruction 0xfc {operation} at byte {begin} of a function")
    raise ValueError(f"unsupported instruction {code:#x} at byte {begin} of a function")


def _only(reader: Reader, what: str) -> bytes:
    """Reads the index of the only table or memory."""
    index = reader.u32()
    if index != 0:
        raise ValueError(f"unsupported second {what}")
    return b"\0"
