"""The author's modules in the interpreter of `operetta dev`: text in memory, which an import hook makes modules of.

The source is `{"module": "plugin", "files": {"plugin.py": "…", "pkg/__init__.py": "…"}}` as JSON. `operetta.develop`
writes it, and `_interpreter` reads it.
"""

from __future__ import annotations

import linecache
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Mapping, NamedTuple, Optional, Sequence

ROOT = "/project/"
"""The folder of the author's modules in tracebacks. Messages leave it out."""


class _Source(NamedTuple):
    file: str
    is_package: bool
    text: Optional[str]
    """None for a folder without `__init__.py`."""


class SourceFinder(MetaPathFinder, Loader):
    """Finds and loads modules whose files are in memory. `files` are the texts by path, relative and with slashes."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._modules: dict[str, _Source] = {}
        folders: set[str] = set()
        for path, text in files.items():
            name, is_package = module_of(path)
            self._modules[name] = _Source(ROOT + path, is_package, text)
            parts = name.split(".")[:-1]
            folders.update(".".join(parts[: length + 1]) for length in range(len(parts)))
        for name in folders - set(self._modules):
            self._modules[name] = _Source(ROOT + name.replace(".", "/"), True, None)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Returns the spec of a module; None if it is not in memory."""
        found = self._modules.get(fullname)
        if found is None:
            return None
        spec = ModuleSpec(fullname, self, origin=found.file, is_package=found.is_package)
        spec.has_location = found.text is not None
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Runs a module's code. Tracebacks show its lines."""
        file, _, text = self._modules[module.__name__]
        if text is None:
            return
        # An entry without a modification time is never checked against a file.
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)


def import_program(program: Mapping[str, Any]) -> ModuleType:
    """Returns the module of a source, imported from memory."""
    sys.meta_path.insert(0, SourceFinder(program["files"]))
    name: str = program["module"]
    __import__(name)
    return sys.modules[name]


def module_of(path: str) -> tuple[str, bool]:
    """Returns the name of the module in a file, and whether it is a package."""
    name = path.removesuffix(".py").replace("/", ".")
    if name.endswith(".__init__"):
        return name.removesuffix(".__init__"), True
    return name, False
