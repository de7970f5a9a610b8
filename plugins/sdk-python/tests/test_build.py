"""Tests of the messages of a failed build. (test_docs.py and the conformance plugin test working builds.)"""

import subprocess
import sys
from pathlib import Path

import pytest

from operetta import build

SDK = Path(__file__).parents[1]
# The output of componentize-py 0.25.
IMPORT_FAILED = """\
Traceback (most recent call last):
  File "/home/me/.venv/bin/componentize-py", line 8, in <module>
    sys.exit(script())
             ^^^^^^^^
AssertionError: Traceback (most recent call last):
  File "/0/operetta_main.py", line 3, in <module>
    import plugin as module
  File "/0/plugin.py", line 2, in <module>
    import requets
ModuleNotFoundError: No module named 'requets'


Caused by:
    ModuleNotFoundError: No module named 'requets'
"""
NO_PLUGIN = """\
AssertionError: Traceback (most recent call last):
  File "/0/operetta_main.py", line 5, in <module>
    export(module, '/0/')
    ~~~~~~^^^^^^^^^^^^^^^
  File "/0/operetta/_guest.py", line 178, in export
    raise ManifestError(f"{module.__name__}.py has …")
operetta._manifest.ManifestError: plugin.py has no variable `plugin` of type operetta.Plugin


Caused by:
    ManifestError
"""


def run(project: Path, **environment: str) -> str:
    command = [sys.executable, "-m", "operetta.build", str(project)]
    ended = subprocess.run(command, env={"PYTHONPATH": str(SDK), **environment}, capture_output=True, text=True)
    assert ended.returncode == 1 and not ended.stdout
    assert ended.stderr.startswith("operetta.build: ")
    return ended.stderr


def test_failed_import_shows_author_line() -> None:
    assert build._explained(IMPORT_FAILED, "plugin").splitlines() == [
        "importing plugin failed:",
        '  File "plugin.py", line 2, in <module>',
        "    import requets",
        "ModuleNotFoundError: No module named 'requets'",
    ]


def test_module_without_plugin_is_one_line() -> None:
    text = build._explained(NO_PLUGIN, "plugin")
    assert text == "plugin.py has no variable `plugin` of type operetta.Plugin"


def test_other_output_is_shown_unchanged() -> None:
    assert "disk full" in build._explained("error: disk full", "plugin")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (None, "a project needs a pyproject.toml and a plugin.py"),
        ("[project", "invalid TOML"),
        ("[project]", 'needs a name, e.g. name = "my-plugin"'),
        ('[project]\nname = "../x"', "needs a name"),
        ('[project]\nname = "x"', "plugin.py does not exist"),
        ('[project]\nname = "x"\n[tool.operetta]\nmodule = "a b"', "must be a module's name, not 'a b'"),
    ],
)
def test_invalid_project_is_one_line(tmp_path: Path, toml: str | None, message: str) -> None:
    if toml is not None:
        (tmp_path / "pyproject.toml").write_text(toml)
    text = run(tmp_path)
    assert message in text and str(tmp_path) in text


def test_missing_tool_shows_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="run: pip install componentize-py"):
        build._componentize_py()


def test_copies_only_importable_files(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in [
        "plugin.py",
        "page/words.txt",
        "tests/test_a.py",
        "test_b.py",
        ".git/x",
        "build/x.wasm",
        "env/pyvenv.cfg",
    ]:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "sdk").mkdir()
    (project / "sdk" / "pyproject.toml").touch()
    build.copy_files(project, tmp_path / "stage")
    stage = tmp_path / "stage"
    assert sorted(str(file.relative_to(stage)) for file in stage.rglob("*") if file.is_file()) == [
        "page/words.txt",
        "plugin.py",
    ]


def test_other_dependencies_add_site_packages() -> None:
    assert build.dependencies({"project": {"dependencies": ["operetta-sdk>=0.1"]}}) == []
    assert build.dependencies({"project": {"dependencies": ["operetta_sdk", "semver"]}}) != []
