"""Reads and writes WebAssembly's binary format: numbers, names, vectors, sections."""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, TypeVar

MODULE, COMPONENT = b"\0asm\x01\0\0\0", b"\0asm\r\0\1\0"
T = TypeVar("T")


class Section(NamedTuple):
    """A section of a module or component."""

    id: int
    body: bytes


class Reader:
    """A cursor over a binary."""

    __slots__ = ("data", "at")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """Reads a byte."""
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        """Reads `size` bytes.

        Raises:
            ValueError: The binary is truncated.
        """
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise ValueError(f"the binary is truncated: expected {size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return taken

    def u32(self) -> int:
        """Reads an unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def s64(self) -> int:
        """Reads a signed LEB128 number."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value

    def name(self) -> str:
        """Reads a name."""
        return self.take(self.u32()).decode()

    def vector(self, item: Callable[[], T]) -> list[T]:
        """Reads a vector whose items `item` reads."""
        return [item() for _ in range(self.u32())]

    def since(self, begin: int) -> bytes:
        """Returns the bytes read since a position."""
        return self.data[begin : self.at]


def u32(value: int) -> bytes:
    """Encodes a number as unsigned LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def s64(value: int) -> bytes:
    """Encodes a number as signed LEB128."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def name(text: str) -> bytes:
    """Encodes a name."""
    return u32(len(text.encode())) + text.encode()


def vector(items: Iterable[bytes]) -> bytes:
    """Encodes a vector."""
    items = list(items)
    return u32(len(items)) + b"".join(items)


def section(id: int, body: bytes) -> bytes:
    """Encodes a section."""
    return bytes([id]) + u32(len(body)) + body


def sections(binary: bytes) -> list[Section]:
    """Returns the sections of a module or component.

    Raises:
        ValueError: The binary is neither, or truncated.
    """
    if binary[:8] not in (MODULE, COMPONENT):
        raise ValueError("this is neither a WebAssembly module nor a component")
    reader = Reader(binary, 8)
    found = []
    while reader.at < len(binary):
        id = reader.byte()
        found.append(Section(id, reader.take(reader.u32())))
    return found


def changed(binary: bytes, change: Callable[[bool, Section], Optional[bytes]]) -> bytes:
    """Returns a module or component whose sections `change` has replaced, those of nested modules and components too.

    Args:
        binary: The module or component.
        change: Is given whether the section is one of a module. Returns its new body; None removes it.

    Raises:
        ValueError: The binary is neither, or truncated.
    """
    head = binary[:8]
    kept = [head]
    for found in sections(binary):
        if head == COMPONENT and found.id in (1, 4):  # a module, a component
            body: Optional[bytes] = changed(found.body, change)
        else:
            body = change(head == MODULE, found)
        if body is not None:
            kept.append(section(found.id, body))
    return b"".join(kept)
