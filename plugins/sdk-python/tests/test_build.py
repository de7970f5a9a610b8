"""What an author reads when a build fails. (That a build works is shown by the conformance plugin.)"""

import subprocess
import sys
from pathlib import Path

import pytest

from operetta import build

SDK = Path(__file__).parents[1]
# What componentize-py 0.25 prints.
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


def test_an_import_that_fails_shows_the_author_s_line() -> None:
    assert build._explained(IMPORT_FAILED, "plugin").splitlines() == [
        "importing plugin failed:",
        '  File "plugin.py", line 2, in <module>',
        "    import requets",
        "ModuleNotFoundError: No module named 'requets'",
    ]


def test_a_module_without_a_plugin_is_said_in_a_sentence() -> None:
    said = build._explained(NO_PLUGIN, "plugin")
    assert said == "plugin.py has no variable `plugin` of type operetta.Plugin"


def test_what_is_no_traceback_is_shown_as_it_is() -> None:
    assert "disk full" in build._explained("error: disk full", "plugin")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (None, "a project has a pyproject.toml and a plugin.py"),
        ("[project", "is not TOML"),
        ("[project]", 'needs a name, e.g. name = "my-plugin"'),
        ('[project]\nname = "../x"', "needs a name"),
        ('[project]\nname = "x"', "plugin.py does not exist"),
        ('[project]\nname = "x"\n[tool.operetta]\nmodule = "a b"', "is a module's name, not 'a b'"),
    ],
)
def test_a_project_that_is_none_is_said_in_a_sentence(tmp_path: Path, toml: str | None, message: str) -> None:
    if toml is not None:
        (tmp_path / "pyproject.toml").write_text(toml)
    said = run(tmp_path)
    assert message in said and str(tmp_path) in said


def test_a_missing_tool_is_said_with_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="install it with: pip install componentize-py"):
        build._componentize_py()


def test_only_what_a_plugin_may_import_is_copied(tmp_path: Path) -> None:
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
    build._copy(project, tmp_path / "stage")
    stage = tmp_path / "stage"
    assert sorted(str(file.relative_to(stage)) for file in stage.rglob("*") if file.is_file()) == [
        "page/words.txt",
        "plugin.py",
    ]


def test_dependencies_besides_the_sdk_bring_the_site_packages() -> None:
    assert build._dependencies({"project": {"dependencies": ["operetta-sdk>=0.1"]}}) == []
    assert build._dependencies({"project": {"dependencies": ["operetta_sdk", "semver"]}}) != []
