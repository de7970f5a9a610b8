"""Reconcilers in unit tests, with pytest or unittest, without a cluster.

A `Cluster` is an API server in memory with the semantics that reconcilers rely on: resourceVersions and conflicts,
already-exists, uids, generations, the status subresource, finalizers and deletionTimestamps, label selectors, owners
and declared indexes, merge and JSON patches. Reconcilers run in it as they run in the host, and it keeps the events and
logs they wrote:

    cluster = Cluster(kinds.ConfigMap.new("a", "ns"))
    assert cluster.reconcile(plugin, ("ns", "a")) is None
    assert cluster.get(kinds.ConfigMap, ("ns", "a")).metadata.annotations["stamped"] == "yes"

What it is not: it knows no schemas, so it neither validates, defaults nor prunes fields. It runs no controllers:
nothing is garbage collected, no Pod becomes ready, and a test changes objects itself through `Cluster.context`. It has
no RBAC. What would need more than it knows, server-side apply, strict validation, generateName, foreground and orphan
deletion and the scale subresource among them, it refuses with an error that says so, rather than guess.
"""

from __future__ import annotations

import logging
from typing import Any, Literal, Mapping, NamedTuple, Optional

from .._backend import Event
from .._context import Context
from .._json import encode
from .._kind import KindLike, NameLike, key_of, kind_of
from .._logging import Fields, HostHandler
from .._object import Object
from .._plugin import Plugin
from .._results import Request, Requeue
from ..errors import ApiError, NotFoundError
from ._backend import TestBackend, Write

__all__ = ["Cluster", "Event", "LogLine", "Write"]

Verb = Literal["get", "list", "create", "update", "update_status", "patch", "delete"]


class LogLine(NamedTuple):
    """A line that a reconciler logged."""

    level: str
    """error, warn, info, debug or trace."""
    message: str
    fields: dict[str, str]
    """Those of `extra=`, and the logger's name."""


class Cluster:
    """An API server in memory."""

    def __init__(self, *objects: Mapping[str, Any], config: Optional[Mapping[str, Any]] = None) -> None:
        """With these objects, as `add` takes them, and this `spec.config` of the Plugin."""
        self._backend = TestBackend()
        self._logs: list[LogLine] = []
        self._reconciles = 0
        if config is not None:
            self._backend.config_text = encode(config, "the config")
        for obj in objects:
            self.add(obj)

    def add(self, obj: Mapping[str, Any]) -> Object:
        """Adds an object as it stands, its status and deletionTimestamp included, and returns it as stored. What the
        API server sets (uid, resourceVersion, creationTimestamp, generation) is set where it is missing.

        Raises `AlreadyExistsError`, or `BadRequestError` if the object has no name.
        """
        kind, key = kind_of(obj), key_of(obj)
        self._backend.store.seed(kind, key, encode(obj, f"{kind} {key}"))
        return self._backend.store.get(kind, key).copy()

    def without_status_subresource(self, kind: KindLike) -> "Cluster":
        """Says that this CRD has no status subresource: its status is then a field like any other. All kinds have one
        but the built-in ones without status."""
        self._backend.store.without_status.add(kind_of(kind))
        return self

    def fail_next(self, verb: Verb, error: ApiError) -> None:
        """The next call of this kind fails with this error. Several faults are used up in order."""
        self._backend.faults.append((verb, error))

    def answer_raw(self, method: str, path: str, status: int, body: Any) -> None:
        """Plans the answer to raw requests of this method and path."""
        self._backend.raw_answers[(method, path)] = (status, encode(body, "the body"))

    def reconcile(
        self, plugin: Plugin, name: NameLike, namespace: Optional[str] = None, *, controller: Optional[str] = None,
        retries: int = 0,
    ) -> Optional[Requeue]:  # fmt: skip
        """Reconciles a key; `controller` may be left out if the plugin has one only. Returns None for done, or the
        requeue.

        Raises what the reconciler raises: `TerminalError` is the failure that is not retried. Also raises
        `ManifestError` if the host would refuse the plugin.
        """
        manifest_names = [controller.name for controller in plugin._controllers.values()]
        plugin.manifest()
        if controller is None:
            if len(manifest_names) != 1:
                raise ValueError(f"say controller=, one of {', '.join(manifest_names)}")
            controller = manifest_names[0]
        self._backend.indexes = list(plugin.indexes)
        self._reconciles += 1
        request = Request(controller, key_of(name, namespace), retries, f"test-{self._reconciles}")
        handler = HostHandler(lambda _: True, self._keep)
        level = logging.root.level
        logging.root.addHandler(handler)
        handler.start()
        try:
            return plugin.reconcile(Context(self._backend, request))
        finally:
            logging.root.removeHandler(handler)
            logging.root.setLevel(level)

    @property
    def context(self) -> Context:
        """A client of this cluster, to change objects and look at them as a user would. Its writes are recorded."""
        return Context(self._backend, Request("", key_of("test")))

    def get(self, kind: KindLike, name: NameLike, namespace: Optional[str] = None) -> Optional[Object]:
        """A copy of the object of a key; None if there is none."""
        try:
            return self._backend.store.get(kind_of(kind), key_of(name, namespace)).copy()
        except NotFoundError:
            return None

    def writes(self) -> list[str]:
        """The writes since the last call of this function, in order, e.g. `update Deployment ns/name`."""
        taken, self._backend.writes = self._backend.writes, []
        return [str(write) for write in taken]

    def events(self) -> list[Event]:
        """The events since the last call of this function, in order. The kit aggregates nothing."""
        taken, self._backend.events = self._backend.events, []
        return taken

    def logs(self) -> list[LogLine]:
        """The log lines of every level since the last call of this function, in order."""
        taken, self._logs = self._logs, []
        return taken

    def _keep(self, level: str, message: str, fields: Fields) -> None:
        self._logs.append(LogLine(level, message, dict(fields)))
