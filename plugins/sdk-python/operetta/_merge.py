"""Merges the core modules of a component into one.

componentize-py links the interpreter as a dozen modules that import some 1,500 functions from each other. A host links
them again for each instance, which takes longer than the rest of the instantiation. In one module these imports are
indexes, and the function table is laid out once, when the component is compiled. The code and the memory stay the same.

The component must be the output of wit-component's linker: each module is instantiated once, none has a start function,
and all share one memory and one table, except the two modules (the shim and its fixup) through which host functions
that need the memory are called. Anything else is refused with `ValueError`.
"""

from __future__ import annotations

from typing import NamedTuple

from . import _binary as binary
from ._binary import u32
from ._code import Indexes, rewrite
from ._component import Component, Instance
from ._module import FUNCTION, GLOBAL, MEMORY, TABLE, Module

# The module name of the merged module's imports.
IMPORTS = "i"


class Definition(NamedTuple):
    """The definition of a core item: an item of a module, or a canonical function."""

    module: int
    """The module; -1 if `at` is the index of a canonical function."""
    sort: int
    at: int
    """The index of the item in the module's index space of this sort."""


class Merged(NamedTuple):
    """The merged module, with its imports and exports."""

    binary: bytes
    imports: list[Definition]
    """The imports, named `IMPORTS` `0`, `1`, …"""
    exports: dict[Definition, str]
    """The names of the exports."""


class Linking:
    """Resolves the imports of modules to definitions."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.modules = [Module(module) for module in component.modules]
        # The instance of each module.
        self.instances: dict[int, Instance] = {}
        for instance in component.instances:
            if instance.module is not None:
                if instance.module in self.instances:
                    raise ValueError("a module is instantiated twice")
                self.instances[instance.module] = instance

    def core(self, sort: int, index: int) -> Definition:
        """Returns the definition of a core index of the component."""
        item = self.component.core[sort][index]
        if item.instance is None:
            return Definition(-1, FUNCTION, item.canonical)
        return self.export(item.instance, item.name, sort)

    def export(self, instance: int, name: str, sort: int) -> Definition:
        """Returns the definition of an instance's export."""
        exporter = self.component.instances[instance]
        if exporter.module is None:
            found, index = exporter.exports[name]
            return self.core(found, index)
        found, index = self.modules[exporter.module].exports[name]
        if found != sort:
            raise ValueError(f"the export {name!r} has another kind than its import")
        return self.local(exporter.module, sort, index)

    def local(self, module: int, sort: int, index: int) -> Definition:
        """Returns the definition of an index of a module: its own item, or an import."""
        imports = self.modules[module].imported(sort)
        if index >= len(imports):
            return Definition(module, sort, index)
        given = imports[index]
        return self.export(self.instances[module].arguments[given.module], given.name, sort)

    def all_local(self, module: int, sort: int, count: int) -> list[Definition]:
        """Returns the definitions of the first `count` indexes of a module."""
        imports = self.modules[module].imported(sort)
        arguments = self.instances[module].arguments
        resolved = [self.export(arguments[given.module], given.name, sort) for given in imports]
        return [*resolved, *(Definition(module, sort, at) for at in range(len(imports), count))]


def merge_modules(linking: Linking, chosen: list[int], used: list[Definition]) -> Merged:
    """Merges the chosen modules into one that exports the `used` definitions."""
    return _Merger(linking, chosen).merge(used)


class _Merger:
    def __init__(self, linking: Linking, chosen: list[int]) -> None:
        self.linking, self.chosen = linking, chosen
        self.types: dict[bytes, int] = {}
        self.imports: dict[Definition, int] = {}
        # The types of the imports.
        self.import_types: list[int] = []
        self.functions: dict[Definition, int] = {}
        self.globals: dict[Definition, int] = {}
        self.of_module: dict[int, list[Definition]] = {}
        self.type_maps: dict[int, list[int]] = {}

    def merge(self, used: list[Definition]) -> Merged:
        for at in self.chosen:
            module = self.linking.modules[at]
            self.type_maps[at] = [self.types.setdefault(kind, len(self.types)) for kind in module.types]
            count = len(module.imported(FUNCTION)) + len(module.functions)
            self.of_module[at] = self.linking.all_local(at, FUNCTION, count)
            for given, definition in zip(module.imported(FUNCTION), self.of_module[at], strict=False):
                if definition.module not in self.chosen and definition not in self.imports:
                    self.imports[definition] = len(self.imports)
                    self.import_types.append(self.type_maps[at][binary.Reader(given.description).u32()])
        self.functions = dict(self.imports)
        own_types: list[bytes] = []
        own_globals: list[bytes] = []
        for at in self.chosen:
            module = self.linking.modules[at]
            first = len(module.imported(FUNCTION))
            for index, kind in enumerate(module.functions, first):
                self.functions[Definition(at, FUNCTION, index)] = len(self.functions)
                own_types.append(u32(self.type_maps[at][kind]))
            first = len(module.imported(GLOBAL))
            for index, defined in enumerate(module.globals, first):
                self.globals[Definition(at, GLOBAL, index)] = len(self.globals)
                own_globals.append(defined.type + self._constant(at, defined.value) + b"\x0b")
        exports = {definition: str(at) for at, definition in enumerate(dict.fromkeys(used))}
        data = [segment for at in self.chosen for segment in self._data(at)]
        code = [body for at in self.chosen for body in self._code(at)]
        parts = [
            (1, binary.vector(self.types)),
            (2, binary.vector(self._import(at, kind) for at, kind in enumerate(self.import_types))),
            (3, binary.vector(own_types)),
            (4, binary.vector([self._only(TABLE)])),
            (5, binary.vector([self._only(MEMORY)])),
            (6, binary.vector(own_globals)),
            (7, binary.vector(self._export(definition, name) for definition, name in exports.items())),
            (9, binary.vector(self._elements())),
            (12, u32(len(data))),
            (10, binary.vector(code)),
            (11, binary.vector(data)),
        ]
        module_binary = binary.MODULE + b"".join(binary.section(id, body) for id, body in parts)
        return Merged(module_binary, list(self.imports), exports)

    @staticmethod
    def _import(at: int, kind: int) -> bytes:
        return binary.name(IMPORTS) + binary.name(str(at)) + bytes([FUNCTION]) + u32(kind)

    def _export(self, definition: Definition, name: str) -> bytes:
        index = {FUNCTION: self.functions, GLOBAL: self.globals}.get(definition.sort, {}).get(definition, 0)
        return binary.name(name) + bytes([definition.sort]) + u32(index)

    def _only(self, sort: int) -> bytes:
        """Returns the only table or memory of the chosen modules."""
        every = [self.linking.modules[at] for at in self.chosen]
        own = [kind for module in every for kind in (module.tables if sort == TABLE else module.memories)]
        if len(own) != 1:
            raise ValueError(f"{len(own)} {'tables' if sort == TABLE else 'memories'} instead of one")
        return own[0]

    def _constant(self, at: int, expression: bytes) -> bytes:
        """Returns a constant expression of one instruction: evaluates the sums of base addresses in i32 expressions."""
        if expression[0] in (0x42, 0x43, 0x44):  # another type than i32
            return expression
        value = self._value(at, expression)
        return b"\x41" + binary.s64(value - (1 << 32) if value >> 31 else value)

    def _value(self, at: int, expression: bytes) -> int:
        """Evaluates an i32 expression. Globals in it must be immutable."""
        reader, stack = binary.Reader(expression), []
        while reader.at < len(expression):
            code = reader.byte()
            if code == 0x41:
                stack.append(reader.s64())
            elif code == 0x23:
                found = self.linking.local(at, GLOBAL, reader.u32())
                module = self.linking.modules[found.module]
                defined = module.globals[found.at - len(module.imported(GLOBAL))]
                if defined.type != b"\x7f\0":
                    raise ValueError("a constant expression reads a global that is mutable or not an i32")
                stack.append(self._value(found.module, defined.value))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append({0x6A: left + right, 0x6B: left - right, 0x6C: left * right}[code])
        return stack.pop() & 0xFFFFFFFF

    def _elements(self) -> list[bytes]:
        written = []
        for at in self.chosen:
            for segment in self.linking.modules[at].elements:
                functions = binary.vector(u32(self.functions[self.of_module[at][index]]) for index in segment.functions)
                if segment.flags == 0:
                    written.append(b"\0" + self._constant(at, segment.offset) + b"\x0b" + functions)
                else:
                    written.append(u32(segment.flags) + b"\0" + functions)
        return written

    def _data(self, at: int) -> list[bytes]:
        written = []
        for offset, content in self.linking.modules[at].data:
            head = b"\x01" if offset is None else b"\0" + self._constant(at, offset) + b"\x0b"
            written.append(head + u32(len(content)) + content)
        return written

    def _code(self, at: int) -> list[bytes]:
        module = self.linking.modules[at]
        before = self.chosen[: self.chosen.index(at)]
        count = len(module.imported(GLOBAL)) + len(module.globals)
        indexes = Indexes(
            [u32(self.functions[definition]) for definition in self.of_module[at]],
            self.type_maps[at],
            [u32(self.globals[definition]) for definition in self.linking.all_local(at, GLOBAL, count)],
            sum(len(self.linking.modules[other].data) for other in before),
        )
        bodies = [rewrite(body, indexes) for body in module.code]
        return [u32(len(body)) + body for body in bodies]


def merge(component: bytes) -> bytes:
    """Merges the core modules of a component.

    Raises:
        ValueError: The component is not the output of wit-component's linker.
    """
    read = Component(component)
    linking = Linking(read)
    apart = _shim_and_fixup(linking)
    chosen = [instance.module for instance in read.instances if instance.module is not None]
    chosen = [module for module in chosen if module not in apart]
    return _Writer(read, linking, chosen, *apart).write()


def _shim_and_fixup(linking: Linking) -> tuple[int, int]:
    """Finds the shim, which exports the table `$imports`, and its fixup, which fills the table."""
    shim = [at for at, module in enumerate(linking.modules) if "$imports" in module.exports]
    fixup = [
        at for at, module in enumerate(linking.modules) if any(given.name == "$imports" for given in module.imports)
    ]
    if len(shim) != 1 or len(fixup) != 1 or linking.modules[shim[0]].imports:
        raise ValueError("expected one shim and one fixup in the component")
    return shim[0], fixup[0]


class _Writer:
    """Writes the component: the sections before its last core instance, then the instances, then the other sections."""

    def __init__(self, component: Component, linking: Linking, chosen: list[int], shim: int, fixup: int) -> None:
        self.component = component
        self.linking = linking
        self.chosen = chosen
        self.shim = shim
        self.fixup = fixup
        self.out = [binary.COMPONENT]
        self.core_functions: dict[Definition, int] = {}
        self.instances = 0
        self.merged: Merged

    def write(self) -> bytes:
        if any(not (canonical.makes_core or canonical.after_core) for canonical in self.component.canonicals):
            raise ValueError("a function is exported before the last module is instantiated")
        self.merged = merge_modules(self.linking, self.chosen, self._used())
        if any(of.module == -1 and self.component.canonicals[of.at].core for of in self.merged.imports):
            raise ValueError("a function that needs the memory is imported without the shim")
        for position, section in enumerate(self.component.rest):
            if position == self.component.last_core:
                self._modules()
            if section.canonical is None:
                self.out.append(section.binary)
            else:
                canonical = self.component.canonicals[section.canonical]
                if canonical.after_core or not canonical.core:
                    self._canonical(section.canonical)
        if self.component.last_core >= len(self.component.rest):
            raise ValueError("the component exports nothing")
        return b"".join(self.out)

    def _used(self) -> list[Definition]:
        """Returns the definitions of the merged module that canonical functions, the fixup and the shim use."""
        used = [
            self.linking.core(sort, index) for canonical in self.component.canonicals for sort, index in canonical.core
        ]
        for module in (self.shim, self.fixup):
            used += [
                self.linking.local(module, sort, index)
                for sort in (FUNCTION, TABLE, MEMORY, GLOBAL)
                for index in range(len(self.linking.modules[module].imported(sort)))
            ]
        return [definition for definition in used if definition.module in self.chosen]

    def _modules(self) -> None:
        """Writes the modules, their instances, and the host functions that need the memory."""
        for module in (self.component.modules[self.shim], self.component.modules[self.fixup], self.merged.binary):
            self.out.append(binary.section(1, module))
        shim = self._instance(b"\0" + u32(0) + binary.vector([]))
        names = {of[1]: name for name, of in self.linking.modules[self.shim].exports.items() if of[0] == FUNCTION}
        for definition in self.merged.imports:
            if definition.module == self.shim:
                self._alias(shim, FUNCTION, names[definition.at], definition)
        given = [(str(at), FUNCTION, self.core_functions[of]) for at, of in enumerate(self.merged.imports)]
        imports = self._bag(given)
        merged = self._instance(b"\0" + u32(2) + binary.vector([binary.name(IMPORTS) + b"\x12" + u32(imports)]))
        for definition, name in self.merged.exports.items():
            self._alias(merged, definition.sort, name, definition)
        self._alias(shim, TABLE, "$imports", None)
        for at, canonical in enumerate(self.component.canonicals):
            if canonical.core and not canonical.after_core:
                self._canonical(at)
        wanted = self.linking.modules[self.fixup].imports
        tables = sum(of.sort == TABLE for of in self.merged.exports)
        functions = iter(
            self.linking.all_local(self.fixup, FUNCTION, len(self.linking.modules[self.fixup].imported(FUNCTION)))
        )
        given = [
            (item.name, item.sort, self.core_functions[next(functions)] if item.sort == FUNCTION else tables)
            for item in wanted
        ]
        bag = self._bag(given)
        self._instance(b"\0" + u32(1) + binary.vector([binary.name(wanted[0].module) + b"\x12" + u32(bag)]))

    def _instance(self, form: bytes) -> int:
        self.out.append(binary.section(2, binary.vector([form])))
        self.instances += 1
        return self.instances - 1

    def _bag(self, items: list[tuple[str, int, int]]) -> int:
        """Writes an instance of single items and returns its index."""
        forms = (binary.name(name) + bytes([sort]) + u32(index) for name, sort, index in items)
        return self._instance(b"\1" + binary.vector(forms))

    def _alias(self, instance: int, sort: int, name: str, definition: Definition | None) -> None:
        form = bytes([0, sort, 1]) + u32(instance) + binary.name(name)
        self.out.append(binary.section(6, binary.vector([form])))
        if sort == FUNCTION and definition is not None:
            self.core_functions[definition] = len(self.core_functions)

    def _canonical(self, at: int) -> None:
        canonical = self.component.canonicals[at]
        parts = [canonical.parts[0]]
        for (sort, index), part in zip(canonical.core, canonical.parts[1:], strict=True):
            # The only memory has index 0.
            parts += [u32(self.core_functions[self.linking.core(sort, index)] if sort == FUNCTION else 0), part]
        self.out.append(binary.section(8, binary.vector([b"".join(parts)])))
        if canonical.makes_core:
            self.core_functions[Definition(-1, FUNCTION, at)] = len(self.core_functions)
