"""The test kit starts or finds the test server, and a failing test shows the contents of its clusters."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from operetta import Object, kinds
from operetta.testing import Cluster, ServerFault, _server

SDK = Path(__file__).parents[1]
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "operetta.testing.pytest_plugin")
SECRET = 'kinds.Secret.new("password", "ns", stringData={"key": "hunter2"})'


def python(folder: Path, *command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python with the SDK, its output in one text."""
    return subprocess.run(
        [sys.executable, *command], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(SDK), "PYTEST_ADDOPTS": "", **variables},
    )  # fmt: skip


def test_failing_pytest_shows_objects_and_calls_of_its_own_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from operetta import kinds\n"
        "from operetta.testing import Cluster\n"
        f'def test_passes() -> None:\n    Cluster(kinds.ConfigMap.new("passing", "ns"))\n'
        f'def test_fails() -> None:\n    cluster = Cluster(kinds.ConfigMap.new("failing", "ns"), {SECRET})\n'
        '    cluster.context.get_or_none(kinds.Pod, "sought", "ns")\n    assert cluster is None\n'
    )
    ended = python(tmp_path, "-m", *PYTEST)
    assert "1 failed, 1 passed" in ended.stdout
    shown = ended.stdout.partition("Operetta test cluster")[2]
    assert "failing" in shown and "sought" in shown and "password" in shown
    assert "passing" not in shown and "hunter2" not in shown and "aHVudGVyMg" not in shown


@pytest.mark.parametrize("options", [(), ("-p", "operetta.testing.pytest_plugin")])
def test_installed_package_has_its_pytest_plugin_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    project = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "site" / "operetta_sdk-0.1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: operetta-sdk\nVersion: 0.1.0\n")
    entries = [f"{name} = {module}" for name, module in project["entry-points"]["pytest11"].items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *entries]))
    (tmp_path / "test_it.py").write_text(
        "from operetta import kinds\n"
        "from operetta.testing import Cluster\n"
        'def test_fails() -> None:\n    assert Cluster(kinds.ConfigMap.new("failing", "ns")) is None\n'
    )
    path = os.pathsep.join([str(installed.parent), str(SDK)])
    ended = python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, PYTHONPATH=path)
    assert ended.stdout.count("Operetta test cluster") == 1, ended.stdout


def test_failing_unittest_shows_objects_and_calls(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from operetta import kinds\n"
        "from operetta.testing import Cluster, TestCase\n"
        "class Test(TestCase):\n"
        '    def setUp(self) -> None:\n        self.cluster = Cluster(kinds.ConfigMap.new("failing", "ns"))\n'
        "    def test_passes(self) -> None:\n        pass\n"
        "    def test_fails(self) -> None:\n        self.assertIsNone(self.cluster)\n"
    )
    ended = python(tmp_path, "-m", "unittest")
    assert "FAILED (failures=1)" in ended.stdout
    assert "failing" in ended.stdout.partition("AssertionError")[2]


def test_missing_program_is_an_error_with_the_fix(tmp_path: Path) -> None:
    script = "from operetta.testing import Cluster; Cluster()"
    ended = python(tmp_path, "-c", script, OPERETTA="/no/such/operetta", OPERETTA_TEST_ADDRESS="")
    assert (
        "ServerFault: the test server '/no/such/operetta' cannot be started: No such file or directory; run the tests "
        "with `operetta test`, or put `operetta` on PATH, or set OPERETTA to the program"
    ) in ended.stdout
    ended = python(tmp_path, "-c", script, OPERETTA="false", OPERETTA_TEST_ADDRESS="")
    assert "`false test --serve` ended with exit code 1" in ended.stdout


def test_server_ends_with_its_process(tmp_path: Path) -> None:
    script = "from operetta.testing import Cluster, _server; Cluster(); print(_server._address())"
    ended = python(tmp_path, "-W", "error", "-c", script, OPERETTA_TEST_ADDRESS="")
    assert ended.returncode == 0, ended.stdout
    refused = python(tmp_path, "-c", script, OPERETTA_TEST_ADDRESS=ended.stdout.strip())
    assert "no connection to the test server" in refused.stdout


def test_wrong_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "0" * 8 + "@" + _server._address().partition("@")[2]
    monkeypatch.setenv(_server.ADDRESS, wrong)
    with pytest.raises(ServerFault, match="closed the connection in the call 'open'"):
        Cluster()


def test_unknown_call_is_a_fault_that_no_reconciler_handles() -> None:
    connection = _server.Connection()
    with pytest.raises(ServerFault, match="sing"):
        connection.call("sing", {})
    assert not issubclass(ServerFault, Exception)


def test_text_of_any_characters_survives(tmp_path: Path) -> None:
    strange = '\u2028 \x7f \ud7ff \U0001f3b6 \\ " \n é'
    cluster = Cluster(kinds.ConfigMap.new("a", "ns", data={"text": strange}))
    assert cluster.get(kinds.ConfigMap, "a", "ns").data.text == strange
    large = 2**63 - 1
    stored = cluster.add(Object(apiVersion="e.dev/v1", kind="Foo", metadata={"name": "a"}, spec={"size": large}))
    assert stored.spec.size == large


def test_dump_names_objects_and_calls() -> None:
    cluster = Cluster(kinds.ConfigMap.new("stored", "ns"))
    cluster.context.delete(kinds.ConfigMap, "stored", "ns")
    cluster.add(kinds.ConfigMap.new("other", "ns"))
    assert "other" in cluster.dump() and "delete" in cluster.dump()
