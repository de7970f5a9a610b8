"""Builds a project's component: `python -m operetta.build [DIR] [-o FILE] [--debug]`. `operetta build` runs it.

A project is a folder with a pyproject.toml and a module `plugin` (`[tool.operetta] module = "…"` names another) with a
variable `plugin = Plugin()`. The build imports the module once and snapshots the interpreter's memory into the
component. Import at the top of modules: a running component has no files.

The build needs componentize-py beside this interpreter or in PATH. An error is one line, or the traceback of the
import, with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, NoReturn, Optional

from . import _immortal, _merge, _strip

_SDK = Path(__file__).resolve().parent
_NOT_COPIED = {"__pycache__", "build", "dist", "node_modules", "target", "test", "tests"}
_MAIN = """\
import sys
sys.dont_write_bytecode = True
import {module} as module
from operetta._guest import Mapper, Reconciler, export
export(module, {root!r})
"""


def main(arguments: Optional[list[str]] = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m operetta.build", description="Builds a plugin's component.")
    parser.add_argument(
        "directory",
        nargs="?",
        default=".",
        type=Path,
        metavar="DIR",
        help="the project; default: the current directory",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the component; default: DIR/build/NAME.wasm")
    parser.add_argument("--debug", action="store_true", help="keep names and separate modules")
    options = parser.parse_args(arguments)
    build(options.directory.resolve(), options.output, options.debug)


def build(project: Path, output: Optional[Path], debug: bool) -> Path:
    """Builds the project's component and returns its path. Exits the process with a message if the build fails."""
    settings = settings_of(project)
    module = module_in(project, settings)
    output = output or project / "build" / f"{settings['project']['name']}.wasm"
    output.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="operetta-build-") as folder:
        stage = Path(folder) / "app"
        copy_files(project, stage)
        # componentize-py mounts the paths of `-p` as /0, /1, …
        main = _MAIN.format(module=module, root="/0/")
        try:
            component = componentize(stage, main, dependencies(settings), _SDK / "wit", "mapping-plugin")
        except ComponentizeError as error:
            _fail(_explained(str(error), module))
    if not debug:
        component = stripped(component)
    partial = output.with_suffix(".partial")
    partial.write_bytes(component)
    partial.replace(output)
    print(f"{output}: {len(component):,} bytes in {time.monotonic() - started:.1f} s", file=sys.stderr)
    return output


class ComponentizeError(Exception):
    """componentize-py failed; the message is its output."""


def componentize(stage: Path, main: str, packages: list[str], wit: Path, world: str) -> bytes:
    """Makes a component of the interpreter after it has run `main`. Copies the SDK into the folder of the modules.

    Raises:
        ComponentizeError: componentize-py failed.
    """
    copy_files(_SDK, stage / "operetta")
    (stage / "operetta_main.py").write_text(main)
    with tempfile.TemporaryDirectory(prefix="operetta-componentize-") as folder:
        made = Path(folder) / "made.wasm"
        command = [*_componentize_py(), "-q", "-d", str(wit), "-w", world, "componentize"]
        command += [argument for path in (str(stage), *packages) for argument in ("-p", path)]
        command += ["operetta_main", "-o", str(made)]
        # An empty environment: its own search would add all packages of this one, tools among them.
        environment = {**os.environ, "VIRTUAL_ENV": folder, "RUST_BACKTRACE": "0"}
        run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if run.returncode != 0 or not made.exists():
            raise ComponentizeError(run.stdout + run.stderr)
        return made.read_bytes()


def stripped(component: bytes) -> bytes:
    """Returns a component without names, with its modules merged, and the objects of its snapshot immortal."""
    component = _strip.strip(component)
    for change, cannot in ((_merge.merge, "merge modules"), (_immortal.apply, "make objects immortal")):
        try:
            component = change(component)
        except ValueError as error:
            print(f"operetta.build: warning: cannot {cannot}, so instances start slower: {error}", file=sys.stderr)
    return component


def settings_of(project: Path) -> dict[str, Any]:
    """Returns the contents of pyproject.toml. Exits the process with a message if they are not usable."""
    file = project / "pyproject.toml"
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        _fail(f"{file}: {error.strerror}; a project needs a pyproject.toml and a plugin.py")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        _fail(f"{file}: invalid TOML: {error}")
    name = settings.get("project", {}).get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_.]*", name):
        _fail(f'{file}: [project] needs a name, e.g. name = "my-plugin"')
    return settings


def module_in(project: Path, settings: dict[str, Any]) -> str:
    """Returns the name of the project's module. Exits the process with a message if there is none."""
    module = settings.get("tool", {}).get("operetta", {}).get("module", "plugin")
    if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
        _fail(f"{project / 'pyproject.toml'}: [tool.operetta] module must be a module's name, not {module!r}")
    path = project.joinpath(*module.split("."))
    if not path.with_suffix(".py").exists() and not (path / "__init__.py").exists():
        _fail(
            f"{path.with_suffix('.py')} does not exist; [tool.operetta] module in pyproject.toml names another module"
        )
    return module


def _componentize_py() -> list[str]:
    beside = Path(sys.executable).with_name("componentize-py")
    found = str(beside) if beside.exists() else shutil.which("componentize-py")
    if not found:
        _fail("componentize-py is not installed; run: pip install componentize-py")
    return [found]


def ignored(folder: str, names: list[str]) -> set[str]:
    """Returns the names in a folder that are no part of a plugin: tests, environments, nested projects and builds."""
    here = Path(folder)
    return {
        name
        for name in names
        if name in _NOT_COPIED
        or name.startswith((".", "test_"))
        or name.endswith((".wasm", ".egg-info", ".pyc"))
        or (here / name / "pyvenv.cfg").exists()
        or (here / name / "pyproject.toml").exists()
    }


def copy_files(source: Path, target: Path) -> None:
    """Copies the files of a project."""
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


def dependencies(settings: dict[str, Any]) -> list[str]:
    """Returns the folders of this interpreter's packages if the project has dependencies besides the SDK."""
    needed = settings["project"].get("dependencies", [])
    others = [need for need in needed if not re.match(r"operetta[-_.]sdk\b", need, re.IGNORECASE)]
    if not others:
        return []
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages") and Path(path).is_dir()]


def _explained(text: str, module: str) -> str:
    """Reduces componentize-py's output to the error of the import, with the frames of the author's files.

    Returns the whole output if it has no such error.
    """
    text = text.replace('File "/0/', 'File "')
    begin = text.rfind("Traceback (most recent call last):")
    if begin < 0 or 'File "operetta_main.py"' not in text:
        return f"componentize-py failed:\n{text.rstrip()}"
    lines = re.split(r"\n\s*(?:Caused by|Stack backtrace):", text[begin:])[0].rstrip().splitlines()[1:]
    kept, foreign = [], False
    for line in lines:
        if line.startswith('  File "'):
            foreign = line.startswith(('  File "operetta_main.py"', '  File "operetta/', '  File "<frozen'))
        elif not line.startswith(" "):
            foreign = False
        if not foreign:
            kept.append(line)
    if not any(line.startswith(" ") for line in kept):
        return re.sub(r"^operetta\.[\w.]+: ", "", "\n".join(kept))
    return "\n".join([f"importing {module} failed:", *kept])


def _fail(message: str) -> NoReturn:
    sys.exit(f"operetta.build: {message}")


if __name__ == "__main__":
    main()
