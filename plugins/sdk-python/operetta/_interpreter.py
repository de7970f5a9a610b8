"""The interpreter of `operetta dev`: a component with this SDK that imports the author's source in each call.

Only such a component imports this module; `operetta.develop` builds it.
"""

# mypy: ignore-errors

import json

from componentize_py_types import Err
from wit_world.exports import reconciler
from wit_world.imports import source

from . import _guest, _logging, _snapshot
from ._outcome import failure_of
from ._sources import ROOT, import_program

_started = False


def _start():
    """Imports the author's module, once for each instance."""
    global _started
    if not _started:
        _guest.use(import_program(json.loads(source.get())))
        _started = True


class Reconciler(_guest.Reconciler):
    """The component's exports."""

    def describe(self):
        try:
            _start()
            return super().describe()
        except BaseException as error:
            source.fail(_logging.stack(error))
            return ""

    def reconcile(self, request):
        try:
            _start()
        except BaseException as error:
            raise Err(reconciler.Failure_Retry(failure_of(error).message)) from None
        return super().reconcile(request)


class Mapper(_guest.Mapper):
    """The component's export for watches with a function."""

    def map_event(self, event):
        try:
            _start()
        except BaseException as error:
            raise Err(failure_of(error).message) from None
        return super().map_event(event)


def prepare():
    """Prepares the memory that the component has at the start of each call. The build calls it once."""
    _guest.log_to_host(ROOT)
    _snapshot.prepare()
