"""docs/first-plugin-python.md can be followed to the letter.

These tests write its files and run its steps without a cluster. `tests/projects` runs all of its steps.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SDK = Path(__file__).parents[1]
PAGE = SDK.parents[1] / "docs" / "first-plugin-python.md"
FILES = ["pyproject.toml", "crd.yaml", "home.yaml", "plugin.py", "tests/test_plugin.py", "rbac.yaml"]

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="this copy of the SDK has no docs")


def write_files(folder: Path) -> list[str]:
    """Writes each code block whose preceding paragraph names a file, and returns the names."""
    named = r"`([\w./-]+\.(?:toml|yaml|py))`[^`]*:\n\n```(?:python|toml|yaml)\n(.*?)^```"
    found = re.findall(named, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for name, text in found:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return [name for name, _ in found]


def run(folder: Path, *command: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env={**os.environ, "PYTHONPATH": str(SDK)}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_page_names_every_file(tmp_path: Path) -> None:
    assert write_files(tmp_path) == FILES
    blocks = len(re.findall(r"^```(?!console)\w+$", PAGE.read_text(), re.MULTILINE))
    assert blocks == len(FILES), "every block that is not a console session is a file"


def test_plugin_and_its_test_pass(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert "2 passed" in run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "tests")


def test_plugin_builds(tmp_path: Path) -> None:
    write_files(tmp_path)
    run(tmp_path, "operetta.build")
    assert (tmp_path / "build" / "page.wasm").read_bytes().startswith(b"\0asm\r\0\1\0")


def test_yaml_files_agree_with_plugin(tmp_path: Path) -> None:
    write_files(tmp_path)
    crd = (tmp_path / "crd.yaml").read_text()
    sample = (tmp_path / "home.yaml").read_text()
    assert "group: example.com" in crd and "kind: Page" in crd and "name: v1\n" in crd
    assert sample.startswith("apiVersion: example.com/v1\nkind: Page\n")
    assert "operetta.dev/allow-plugins: page" in (tmp_path / "rbac.yaml").read_text()
