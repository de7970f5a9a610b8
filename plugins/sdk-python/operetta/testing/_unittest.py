"""The test case of unittest whose failures show the clusters of the test."""

from __future__ import annotations

import unittest
from typing import Optional

from . import _server


class TestCase(unittest.TestCase):
    """A `unittest.TestCase` whose failures end with the objects and calls of the clusters that the test used."""

    def run(self, result: Optional[unittest.TestResult] = None) -> Optional[unittest.TestResult]:
        """Runs the test, and adds the dumps to the text of its failure."""
        _server.forget_used()
        before = [len(problems) for problems in _problems(result)]
        ended = super().run(result)
        for problems, known in zip(_problems(ended), before, strict=True):
            if len(problems) > known:
                test, text = problems[-1]
                problems[-1] = (test, "\n".join([text, *_server.dumps()]))
        return ended


def _problems(result: Optional[unittest.TestResult]) -> list[list[tuple[unittest.TestCase, str]]]:
    """Returns the failures and the errors of a result. That of another runner may have none."""
    return [getattr(result, name, []) for name in ("failures", "errors")]
