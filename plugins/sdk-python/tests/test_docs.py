"""The code of docs/first-plugin-python.md runs, test and all."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SDK = Path(__file__).parents[1]
PAGE = SDK.parents[1] / "docs" / "first-plugin-python.md"


@pytest.mark.skipif(not PAGE.exists(), reason="this copy of the SDK stands alone")
def test_the_first_plugin_s_code_and_test_work(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(?:python|toml)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    files = ["pyproject.toml", "plugin.py", "tests/test_plugin.py"]
    for name, text in zip(files, blocks, strict=True):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    run = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True)
    assert run.returncode == 0 and "2 passed" in run.stdout, run.stdout + run.stderr
