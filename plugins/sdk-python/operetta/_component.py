"""Parses a component for the merger: its core parts are decoded, its other sections are kept as bytes."""

from __future__ import annotations

from typing import NamedTuple, Optional

from . import _binary as binary
from ._binary import Reader, u32

CORE_SORTS = {0, 1, 2, 3}  # functions, tables, memories, globals


class Instance(NamedTuple):
    """A core instance: of a module with named instances as arguments, or of single exports."""

    module: Optional[int]
    arguments: dict[str, int]
    exports: dict[str, tuple[int, int]]


class CoreItem(NamedTuple):
    """The meaning of a core index: an instance's export, or a canonical function if `instance` is None."""

    instance: Optional[int]
    name: str = ""
    canonical: int = -1


class Canonical(NamedTuple):
    """A canonical definition, split at each core index: `parts[0]`, `core[0]`, `parts[1]`, `core[1]`, …"""

    parts: list[bytes]
    core: list[tuple[int, int]]
    """Pairs of sort and core index."""
    makes_core: bool
    """True if it defines a core function, False if it defines a component function."""
    after_core: bool
    """True if it comes after the last core instance."""


class Rest(NamedTuple):
    """A piece of the component to write: an unchanged section, or the position of a canonical definition."""

    binary: bytes
    canonical: Optional[int] = None


class Component:
    """The parts of a component.

    Raises:
        ValueError: The merger does not support a part.
    """

    def __init__(self, data: bytes) -> None:
        self.modules: list[bytes] = []
        self.instances: list[Instance] = []
        self.core: dict[int, list[CoreItem]] = {sort: [] for sort in CORE_SORTS}
        self.canonicals: list[Canonical] = []
        self.rest: list[Rest] = []
        found = binary.sections(data)
        if data[:8] != binary.COMPONENT:
            raise ValueError("this is a module, not a component")
        last = max((at for at, section in enumerate(found) if section.id == 2), default=-1)
        self.last_core = 0
        for at, (id, body) in enumerate(found):
            reader = Reader(body)
            if id == 1:
                self.modules.append(body)
            elif id == 2:
                self.instances += reader.vector(lambda reader=reader: _instance(reader))  # type: ignore[misc]
                self.last_core = len(self.rest)
            elif id == 3:
                raise ValueError("unsupported core types in the component")
            elif id == 6:
                for _ in range(reader.u32()):
                    self._alias(reader)
            elif id == 8:
                for _ in range(reader.u32()):
                    self._canonical(reader, at > last)
            elif id != 0:
                self.rest.append(Rest(binary.section(id, body)))

    def _alias(self, reader: Reader) -> None:
        begin = reader.at
        sort = reader.byte()
        core_sort = reader.byte() if sort == 0 else -1
        target = reader.byte()
        index = reader.u32()
        if target == 1 and core_sort in CORE_SORTS:
            self.core[core_sort].append(CoreItem(index, reader.name()))
            return
        if sort == 0:
            raise ValueError("unsupported alias of a core item that is not an export")
        # The rest of an outer alias is an index, that of an export alias a name.
        reader.u32() if target == 2 else reader.name()
        self.rest.append(Rest(binary.section(6, u32(1) + reader.since(begin))))

    def _canonical(self, reader: Reader, after_core: bool) -> None:
        parts: list[bytes] = []
        core: list[tuple[int, int]] = []
        begin = reader.at
        kind = reader.byte()

        def cut(sort: int) -> None:
            nonlocal begin
            parts.append(reader.since(begin))
            core.append((sort, reader.u32()))
            begin = reader.at

        def options() -> None:
            for _ in range(reader.u32()):
                option = reader.byte()
                if option in (3, 4, 5):  # memory, realloc, post-return
                    cut(2 if option == 3 else 0)
                elif option > 2:  # not a string encoding
                    raise ValueError(f"unsupported canonical option {option}")

        if kind == 0:  # lift
            reader.byte()
            cut(0)
            options()
            reader.u32()
        elif kind == 1:  # lower
            reader.byte()
            reader.u32()
            options()
        elif kind in (2, 3, 4):  # resource.new, .drop, .rep
            reader.u32()
        else:
            raise ValueError(f"unsupported canonical function {kind}")
        parts.append(reader.since(begin))
        at = len(self.canonicals)
        self.canonicals.append(Canonical(parts, core, kind != 0, after_core))
        self.rest.append(Rest(b"", at))
        if kind != 0:
            self.core[0].append(CoreItem(None, canonical=at))


def _instance(reader: Reader) -> Instance:
    if reader.byte() == 0:
        module = reader.u32()
        arguments = {}
        for _ in range(reader.u32()):
            name, _sort = reader.name(), reader.byte()
            arguments[name] = reader.u32()
        return Instance(module, arguments, {})
    exports = {}
    for _ in range(reader.u32()):
        name, sort = reader.name(), reader.byte()
        exports[name] = (sort, reader.u32())
    return Instance(None, {}, exports)
