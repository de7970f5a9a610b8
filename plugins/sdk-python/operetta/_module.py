"""Parses a core module for the merger."""

from __future__ import annotations

from typing import NamedTuple

from ._binary import Reader, sections

FUNCTION, TABLE, MEMORY, GLOBAL = range(4)


class Import(NamedTuple):
    """An import."""

    module: str
    name: str
    sort: int
    description: bytes
    """The encoded description; of a function the index of its type."""


class Global(NamedTuple):
    """A defined global; `value` is its initialiser without the `end`."""

    type: bytes
    value: bytes


class Elements(NamedTuple):
    """An element segment of functions: active with an offset expression, passive, or declarative (`flags` 0, 1, 3)."""

    flags: int
    offset: bytes
    functions: list[int]


class Data(NamedTuple):
    """A data segment; `offset` is None for a passive one."""

    offset: bytes | None
    bytes: bytes


class Module:
    """The parts of a module.

    Raises:
        ValueError: The merger does not support a part.
    """

    def __init__(self, binary: bytes) -> None:
        self.binary = binary
        self.types: list[bytes] = []
        self.imports: list[Import] = []
        self.functions: list[int] = []
        self.tables: list[bytes] = []
        self.memories: list[bytes] = []
        self.globals: list[Global] = []
        self.exports: dict[str, tuple[int, int]] = {}
        self.elements: list[Elements] = []
        self.code: list[bytes] = []
        self.data: list[Data] = []
        for id, body in sections(binary):
            reader = Reader(body)
            match id:
                case 0 | 12:  # custom sections; the number of data segments
                    pass
                case 1:
                    self.types = reader.vector(lambda reader=reader: _type(reader))  # type: ignore[misc]
                case 2:
                    self.imports = reader.vector(lambda reader=reader: _import(reader))  # type: ignore[misc]
                case 3:
                    self.functions = reader.vector(reader.u32)
                case 4:
                    self.tables = reader.vector(lambda reader=reader: _table(reader))  # type: ignore[misc]
                case 5:
                    self.memories = reader.vector(lambda reader=reader: _limits(reader))  # type: ignore[misc]
                case 6:
                    self.globals = reader.vector(lambda reader=reader: _global(reader))  # type: ignore[misc]
                case 7:
                    for _ in range(reader.u32()):
                        name = reader.name()
                        self.exports[name] = (reader.byte(), reader.u32())
                case 9:
                    self.elements = reader.vector(lambda reader=reader: _elements(reader))  # type: ignore[misc]
                case 10:
                    self.code = reader.vector(lambda reader=reader: reader.take(reader.u32()))  # type: ignore[misc]
                case 11:
                    self.data = reader.vector(lambda reader=reader: read_data(reader))  # type: ignore[misc]
                case _:
                    raise ValueError(f"unsupported section {id} of a module")

    def imported(self, sort: int) -> list[Import]:
        """Returns the imports of one sort in index order."""
        return [given for given in self.imports if given.sort == sort]


def _type(reader: Reader) -> bytes:
    begin = reader.at
    if reader.byte() != 0x60:
        raise ValueError("unsupported type that is not a function type")
    reader.vector(reader.byte)
    reader.vector(reader.byte)
    return reader.since(begin)


def _import(reader: Reader) -> Import:
    module, name, sort = reader.name(), reader.name(), reader.byte()
    begin = reader.at
    if sort == FUNCTION:
        reader.u32()
    elif sort == TABLE:
        _table(reader)
    elif sort == MEMORY:
        _limits(reader)
    elif sort == GLOBAL:
        reader.take(2)
    else:
        raise ValueError(f"unsupported import of sort {sort}")
    return Import(module, name, sort, reader.since(begin))


def _limits(reader: Reader) -> bytes:
    begin, flags = reader.at, reader.byte()
    if flags > 1:
        raise ValueError(f"unsupported flags {flags} of a memory or table")
    for _ in range(flags + 1):
        reader.u32()
    return reader.since(begin)


def _table(reader: Reader) -> bytes:
    begin = reader.at
    if reader.byte() != 0x70:
        raise ValueError("unsupported table that is not of functions")
    _limits(reader)
    return reader.since(begin)


def _expression(reader: Reader) -> bytes:
    """Reads a constant expression and returns it without its `end`."""
    begin = reader.at
    while True:
        code = reader.byte()
        if code == 0x0B:
            return reader.data[begin : reader.at - 1]
        if code in (0x41, 0x42):
            reader.s64()
        elif code == 0x23:
            reader.u32()
        elif code in (0x43, 0x44):
            reader.take(4 if code == 0x43 else 8)
        elif code not in (0x6A, 0x6B, 0x6C):  # i32.add, i32.sub, i32.mul
            raise ValueError(f"unsupported instruction {code:#x} in a constant expression")


def _global(reader: Reader) -> Global:
    return Global(reader.take(2), _expression(reader))


def _elements(reader: Reader) -> Elements:
    flags = reader.u32()
    if flags > 3:
        raise ValueError(f"unsupported flags {flags} of an element segment")
    if flags == 2 and reader.u32() != 0:
        raise ValueError("unsupported second table")
    offset = _expression(reader) if flags in (0, 2) else b""
    if flags != 0 and reader.byte() != 0:
        raise ValueError("unsupported element segment that is not of functions")
    return Elements(0 if flags == 2 else flags, offset, reader.vector(reader.u32))


def read_data(reader: Reader) -> Data:
    """Reads a data segment.

    Raises:
        ValueError: It has a second memory.
    """
    flags = reader.u32()
    if flags > 1:
        raise ValueError("unsupported second memory")
    offset = _expression(reader) if flags == 0 else None
    return Data(offset, reader.take(reader.u32()))
