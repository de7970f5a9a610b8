"""Rehearses reconciles before the snapshot, without a host.

CPython specializes code that it runs often, and `isinstance` remembers answers about abstract classes. Both write
beside the code and the classes, all over the memory. After a rehearsal the snapshot has that already.
"""

from __future__ import annotations

from typing import Optional, cast

from . import kinds
from ._backend import Backend, Event, ListQuery, Page, PatchQuery, WriteOptions
from ._context import Context
from ._kind import Key, Kind
from ._object import Object
from ._outcome import run
from ._plugin import Plugin
from ._results import Request

# More often than any of CPython's specializations needs.
_TIMES = 64
_NAME = "rehearsal"
_KEY = Key("default", _NAME)
_OBJECT = """{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rehearsal", "namespace": "default",
"uid": "1", "resourceVersion": "1", "generation": 1, "labels": {"app": "rehearsal"}, "ownerReferences": []},
"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "rehearsal"}]}}}, "status": {"replicas": 1}}"""

_plugin = Plugin()


class _Echo:
    """A backend that returns the same object each time."""

    def get(self, kind: Kind, key: Key, live: bool) -> str:
        return _OBJECT

    def list(self, kind: Kind, query: ListQuery) -> Page:
        return [_OBJECT] * 2, "1", None

    def create(self, kind: Kind, namespace: Optional[str], text: str, options: WriteOptions) -> str:
        return _OBJECT

    def update(self, kind: Kind, key: Key, text: str, options: WriteOptions, status: bool) -> str:
        return _OBJECT

    def patch(self, kind: Kind, key: Key, query: PatchQuery, options: WriteOptions) -> str:
        return _OBJECT

    def event(self, event: Event) -> None: ...


@_plugin.controller(kinds.Deployment, name=_NAME)
def _reconcile(ctx: Context, deployment: Object) -> None:
    """Makes the usual calls."""
    status = deployment.ensure("status")
    status.observedGeneration = deployment.metadata.generation
    status.replicas = deployment.get("status", {}).get("replicas", 0) + 1
    ctx.update_status(deployment)
    ctx.list(kinds.Deployment)
    ctx.get(kinds.Deployment, _KEY.name, _KEY.namespace)
    ctx.create(deployment)
    ctx.update(deployment)
    ctx.event(deployment, "Rehearsed", "a reconcile without a host")


def rehearse() -> None:
    """Reconciles an object a few times.

    Raises:
        RuntimeError: A reconcile failed.
    """
    echo = cast(Backend, _Echo())
    for _ in range(_TIMES):
        _result, failure = run(_plugin, Context(echo, Request(_NAME, _KEY)))
        if failure is not None:
            raise RuntimeError(f"the rehearsal failed: {failure.message}")
