"""The helper of `operetta dev`, and the modules that an interpreter has in memory."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from operetta import _logging, _sources, build, develop

PYPROJECT = '[project]\nname = "p"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose interpreters are files with the names of their modules."""

    def componentize(_stage: Path, main: str, *_: object) -> bytes:
        return main.encode()

    monkeypatch.setattr(build, "componentize", componentize)
    monkeypatch.setattr(build, "stripped", lambda component: component)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "plugin.py").write_text("import json\nfrom os import path\n")
    return folder


@pytest.fixture
def imports() -> Iterator[None]:
    """Removes what a test imports from memory."""
    modules, finders = set(sys.modules), list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_saved_source_needs_no_other_interpreter(project: Path) -> None:
    developer = develop.Developer(project, project.parent / "out")
    first = developer.answer()
    files = {"plugin.py": "import json\nfrom os import path\n"}
    assert json.loads(first["source"]) == {"module": "plugin", "files": files}
    (project / "plugin.py").write_text("import json\nprint(json)\n")
    (project / "other.py").write_text("import plugin\n")
    second = developer.answer()
    assert second["interpreter"] == first["interpreter"]
    assert set(json.loads(second["source"])["files"]) == {"plugin.py", "other.py"}


def test_import_of_another_module_makes_another_interpreter(project: Path) -> None:
    developer = develop.Developer(project, project.parent / "out")
    first = developer.answer()["interpreter"]
    (project / "plugin.py").write_text("from email import message as m\nimport colorsys, no_such_module\n")
    second = developer.answer()["interpreter"]
    assert second != first
    built = (project.parent / "out" / second).read_text()
    assert "'colorsys'" in built and "'email.message'" in built and "no_such_module" not in built
    # What it has is not taken away again.
    (project / "plugin.py").write_text("import json\n")
    assert developer.answer()["interpreter"] == second


def test_installed_package_makes_another_interpreter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = project.parent / "site-packages"
    packages.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    (project / "pyproject.toml").write_text(PYPROJECT + 'dependencies = ["semver"]\n')
    developer = develop.Developer(project, project.parent / "out")
    first = developer.answer()["interpreter"]
    (packages / "semver-3.0.0.dist-info").mkdir()
    second = developer.answer()["interpreter"]
    assert second != first
    (packages / "semver.py").write_text("")
    (project / "plugin.py").write_text("import semver\n")
    third = developer.answer()["interpreter"]
    assert third != second and "'semver'" in (project.parent / "out" / third).read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x = (\n", 'File "plugin.py", line 1'), ("\nreturn 3\n", 'File "plugin.py", line 2'), ("\0", "null bytes")],
)
def test_wrong_syntax_is_reported_with_its_line(project: Path, text: str, expected: str) -> None:
    (project / "plugin.py").write_text(text)
    assert expected in develop.Developer(project, project.parent / "out").answer()["error"]


def test_missing_project_file_is_named(project: Path) -> None:
    (project / "plugin.py").unlink()
    assert "plugin.py does not exist" in develop.Developer(project, project.parent / "out").answer()["error"]


def test_failed_interpreter_leaves_the_build(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise build.ComponentizeError("no room")

    monkeypatch.setattr(build, "componentize", fail)
    assert develop.Developer(project, project.parent / "out").answer() == {"unsupported": "no room"}


@pytest.mark.usefixtures("imports")
def test_modules_in_memory_import_each_other() -> None:
    files = {
        "in_memory_main.py": "from in_memory_package.deep import part\nfrom in_memory_package import name\n",
        "in_memory_package/__init__.py": "from .deep.part import name\n",
        "in_memory_package/deep/part.py": "name = __name__\n",
    }
    module = _sources.import_program({"module": "in_memory_main", "files": files})
    assert module.name == "in_memory_package.deep.part"
    assert module.__file__ == _sources.ROOT + "in_memory_main.py"


@pytest.mark.usefixtures("imports")
def test_traceback_of_a_module_in_memory_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_logging, "roots", [_sources.ROOT])
    with pytest.raises(KeyError) as raised:
        _sources.import_program({"module": "in_memory_wrong", "files": {"in_memory_wrong.py": "\n{}['a']\n"}})
    stack = _logging.stack(raised.value)
    assert "File \"in_memory_wrong.py\", line 2, in <module>\n    {}['a']" in stack
    assert _logging.where(raised.value) == " at in_memory_wrong.py:2 in <module>"
