"""The helper of `operetta dev`: `python -m operetta.develop DIR FOLDER`. It reads the source for an interpreter, so
that a save builds no component. For each line on stdin, the number of a request, it writes a line of JSON to stdout:

    {"request": "1", "interpreter": "python-….wasm", "source": "…"}
    {"request": "2", "error": "File \\"plugin.py\\", line 3 …"}
    {"request": "3", "unsupported": "…"}

The interpreter is a file in FOLDER. It has the SDK, the standard library's common modules, and the modules of other
packages that the project imports, so it is built again when the project imports more, or when packages change. A
project without other packages shares it with all others.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from . import build
from ._sources import module_of

_SDK = Path(__file__).resolve().parent
_MAIN = """\
import sys
sys.dont_write_bytecode = True
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
    except Exception:
        # The import in the project fails likewise, with its line.
        pass
from operetta._interpreter import Mapper, Reconciler, prepare
prepare()
"""
# The modules of the standard library that every interpreter has. Another one is added when a project imports it.
_COMMON = tuple(
    """
    __future__ abc argparse ast base64 binascii bisect calendar collections collections.abc concurrent.futures
    configparser contextlib contextvars copy csv dataclasses datetime decimal difflib email.utils enum errno
    fnmatch fractions functools glob graphlib gzip hashlib heapq hmac html http inspect io ipaddress itertools
    json keyword linecache logging math numbers operator os os.path pathlib platform posixpath pprint queue random
    re secrets shlex shutil statistics string struct sys tempfile textwrap threading time tomllib traceback types
    typing unicodedata urllib.parse uuid warnings weakref zlib zoneinfo
    """.split()  # noqa: SIM905
)


class _File(NamedTuple):
    """A file of the project that parses."""

    text: str
    imports: set[str]
    """The names after `import` and `from`, and those that may be modules of them."""


class Developer:
    """Answers the requests for a project."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._project = project
        self._folder = folder
        self._read: dict[str, tuple[tuple[int, int], _File]] = {}
        # The modules that the interpreter has besides the common ones. They are never removed in a session, so that a
        # removed import costs no build.
        self._modules: set[str] = set()

    def answer(self) -> dict[str, str]:
        """Returns the interpreter's file and the source, or an error. Builds the interpreter if it is not there."""
        try:
            settings = build.settings_of(self._project)
            module = build.module_in(self._project, settings)
            files = {path: self._file(path) for path in self._paths()}
            interpreter = self._interpreter(settings, files)
        except SystemExit as exit:
            return {"error": str(exit)}
        except SyntaxError as error:
            return {"error": "".join(traceback.format_exception_only(error)).strip()}
        except (OSError, ValueError) as error:
            return {"error": str(error)}
        except build.ComponentizeError as error:
            return {"unsupported": str(error)}
        source = {"module": module, "files": {path: file.text for path, file in files.items()}}
        return {"interpreter": interpreter, "source": json.dumps(source)}

    def _paths(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self._project):
            left_out = build.ignored(folder, folders + names)
            folders[:] = sorted(set(folders) - left_out)
            for name in sorted(set(names) - left_out):
                if name.endswith(".py"):
                    yield Path(folder, name).relative_to(self._project).as_posix()

    def _file(self, path: str) -> _File:
        """Reads a file, and checks its syntax if it has changed.

        Raises:
            SyntaxError: It does not parse.
        """
        file = self._project / path
        found = file.stat()
        version = (found.st_mtime_ns, found.st_size)
        known = self._read.get(path)
        if known is None or known[0] != version:
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text, path)
            compile(tree, path, "exec", dont_inherit=True)
            known = self._read[path] = (version, _File(text, _imports(tree)))
        return known[1]

    def _interpreter(self, settings: dict[str, Any], files: dict[str, _File]) -> str:
        packages = build.dependencies(settings)
        own = {module_of(path)[0].partition(".")[0] for path in files} | {"operetta"}
        names = set().union(*(file.imports for file in files.values())) - self._modules - set(_COMMON)
        found = {name for name in names if name.partition(".")[0] not in own and _is_module(name, packages)}
        self._modules |= found
        name = f"python-{self._version(packages)}.wasm"
        target = self._folder / name
        if not target.exists():
            print("building the interpreter for these imports and packages", file=sys.stderr, flush=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = target.with_suffix(f".{os.getpid()}.partial")
            partial.write_bytes(self._built(packages))
            partial.replace(target)
        return name

    def _version(self, packages: list[str]) -> str:
        """Returns a hash of all that the interpreter depends on."""
        digest = hashlib.sha256(_sdk_digest())
        digest.update(json.dumps(sorted(self._modules)).encode())
        for package in packages:
            # The names have the versions.
            installed = [name for name in os.listdir(package) if name.endswith((".dist-info", ".egg-info"))]
            digest.update(json.dumps([package, sorted(installed)]).encode())
        return digest.hexdigest()[:32]

    def _built(self, packages: list[str]) -> bytes:
        names = [*_COMMON, *sorted(self._modules)]
        with tempfile.TemporaryDirectory(prefix="operetta-develop-") as folder:
            wit = Path(folder) / "wit"
            (wit / "deps/controller").mkdir(parents=True)
            (wit / "development.wit").write_bytes((_SDK / "wit/development/development.wit").read_bytes())
            (wit / "deps/controller/controller.wit").write_bytes((_SDK / "wit/controller.wit").read_bytes())
            stage = Path(folder) / "app"
            component = build.componentize(stage, _MAIN.format(names=names), packages, wit, "interpreter")
        return build.stripped(component)


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*")
    return names


def _is_module(name: str, packages: list[str]) -> bool:
    """Reports whether a module is in the standard library or these folders. It runs no code of packages."""
    top, *rest = name.split(".")
    if top in sys.builtin_module_names:
        return not rest
    own = [path for path in sys.path if Path(path).name not in ("", "site-packages", "dist-packages")]
    folders: Optional[list[str]] = [*own, *packages]
    for part in (top, *rest):
        spec = importlib.machinery.PathFinder.find_spec(part, folders) if folders else None
        if spec is None:
            return False
        folders = list(spec.submodule_search_locations) if spec.submodule_search_locations is not None else None
    return True


def _sdk_digest() -> bytes:
    digest = hashlib.sha256()
    for file in sorted(_SDK.rglob("*")):
        if file.suffix in (".py", ".wit"):
            digest.update(f"{file.relative_to(_SDK)}\0".encode() + file.read_bytes() + b"\0")
    return digest.digest()


def main() -> None:
    """Answers the requests on stdin until it ends."""
    project, folder = (Path(argument).resolve() for argument in sys.argv[1:])
    developer = Developer(project, folder)
    for request in sys.stdin:
        print(json.dumps({"request": request.strip(), **developer.answer()}), flush=True)


if __name__ == "__main__":
    main()
