"""The pytest plugin: the report of a failing test shows the objects and calls of the clusters that it used.

pytest loads it with the installed package. Where the package is only on PYTHONPATH, `-p operetta.testing.pytest_plugin`
does.
"""

from __future__ import annotations

from typing import Any, Generator

import pytest

from . import _server


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begins a test."""
    _server.forget_used()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """Adds the dumps to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections += [("Operetta test cluster", dump) for dump in _server.dumps()]
