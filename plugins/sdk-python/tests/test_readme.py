"""Tests of the README's code."""

import re
from pathlib import Path


def test_readme_plugin_and_its_test_run() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"__name__": "plugin"}
    for block in blocks[:2]:
        exec(compile(block, "README.md", "exec"), names)
    assert "cluster" in names


def test_readme_error_message_is_current() -> None:
    from operetta import Object

    obj = Object(kind="Foo", metadata={"name": "web", "namespace": "default"}, spec={"image": 1, "name": 2})
    text = (Path(__file__).parents[1] / "README.md").read_text()
    try:
        _ = obj.spec.replicas
    except AttributeError as error:
        assert f"AttributeError: {error}\n" in text
