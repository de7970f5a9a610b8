"""The test kit: runs reconcilers in unit tests, with pytest or unittest, without a cluster.

A `Cluster` is an API server in memory with the semantics that reconcilers rely on: resourceVersions and conflicts,
already-exists, uids, generations, the status subresource, finalizers and deletionTimestamps, label selectors, owners
and declared indexes, merge and JSON patches. Reconcilers run in it as in the host. It records their writes, Events and
logs:

    cluster = Cluster(kinds.ConfigMap.new("a", "ns"))
    assert cluster.reconcile(plugin, ("ns", "a")) is None
    assert cluster.get(kinds.ConfigMap, ("ns", "a")).metadata.annotations["stamped"] == "yes"

It has no schemas: fields are neither validated, defaulted nor pruned. It runs no controllers: nothing is garbage
collected, no Pod becomes ready, and a test changes objects itself through `Cluster.context`. It has no RBAC. It refuses
what it does not implement with an error: server-side apply, strict validation, generateName, foreground and orphan
deletion, the scale subresource and others.
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
    """A log line of a reconciler."""

    level: str
    """One of error, warn, info, debug and trace."""
    message: str
    fields: dict[str, str]
    """The fields of `extra=`, and the logger's name."""


class Cluster:
    """An API server in memory."""

    def __init__(self, *objects: Mapping[str, Any], config: Optional[Mapping[str, Any]] = None) -> None:
        """Builds a cluster.

        Args:
            objects: The initial objects, as `add` takes them.
            config: The Plugin's `spec.config`.

        Raises:
            AlreadyExistsError: Two objects have the same kind and key.
            BadRequestError: An object has no name.
        """
        self._backend = TestBackend()
        self._logs: list[LogLine] = []
        self._reconciles = 0
        if config is not None:
            self._backend.config_text = encode(config, "the config")
        for obj in objects:
            self.add(obj)

    def add(self, obj: Mapping[str, Any]) -> Object:
        """Adds an object unchanged, including its status and deletionTimestamp, and returns it as stored.

        Fields that the API server sets (uid, resourceVersion, creationTimestamp, generation) are set if missing.

        Raises:
            AlreadyExistsError: An object of this kind and key exists.
            BadRequestError: The object has no name.
        """
        kind, key = kind_of(obj), key_of(obj)
        self._backend.store.seed(kind, key, encode(obj, f"{kind} {key}"))
        return self._backend.store.get(kind, key).copy()

    def without_status_subresource(self, kind: KindLike) -> "Cluster":
        """Removes the status subresource of a custom resource, and returns the cluster.

        Its status is then an ordinary field. Every kind has the subresource, except built-in kinds without a status.
        """
        self._backend.store.without_status.add(kind_of(kind))
        return self

    def fail_next(self, verb: Verb, error: ApiError) -> None:
        """Makes the next call of a verb fail with an error. Several errors are raised in order."""
        self._backend.faults.append((verb, error))

    def set_raw_response(self, method: str, path: str, status: int, body: Any) -> None:
        """Sets the response to raw requests of this method and path."""
        self._backend.raw_responses[(method, path)] = (status, encode(body, "the body"))

    def reconcile(
        self, plugin: Plugin, name: NameLike, namespace: Optional[str] = None, *, controller: Optional[str] = None,
        retries: int = 0,
    ) -> Optional[Requeue]:  # fmt: skip
        """Reconciles a key, and returns the reconciler's result: None for done, or the requeue.

        The reconciler's exceptions are raised to the test.

        Args:
            plugin: The plugin.
            name: A name (with `namespace`), a `Key`, a pair (namespace, name), or an object, whose key is taken.
            namespace: The namespace of the name.
            controller: The controller's name; optional if the plugin has only one.
            retries: The number of failures in a row so far.

        Raises:
            ManifestError: The host would refuse the plugin.
            ValueError: The plugin has several controllers, and `controller` is None.
        """
        names = [controller.name for controller in plugin._controllers.values()]
        plugin.manifest()
        if controller is None:
            if len(names) != 1:
                raise ValueError(f"set controller= to one of {', '.join(names)}")
            controller = names[0]
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
        """A client of this cluster, to read and change objects as a user would. Its writes are recorded, too."""
        return Context(self._backend, Request("", key_of("test")))

    def get(self, kind: KindLike, name: NameLike, namespace: Optional[str] = None) -> Optional[Object]:
        """Returns a copy of an object, or None if it does not exist."""
        try:
            return self._backend.store.get(kind_of(kind), key_of(name, namespace)).copy()
        except NotFoundError:
            return None

    def writes(self) -> list[str]:
        """Returns the writes since the last call of this method, in order, e.g. `update Deployment ns/name`."""
        taken, self._backend.writes = self._backend.writes, []
        return [str(write) for write in taken]

    def events(self) -> list[Event]:
        """Returns the Events since the last call of this method, in order. They are not aggregated."""
        taken, self._backend.events = self._backend.events, []
        return taken

    def logs(self) -> list[LogLine]:
        """Returns the log lines of every level since the last call of this method, in order."""
        taken, self._logs = self._logs, []
        return taken

    def _keep(self, level: str, message: str, fields: Fields) -> None:
        self._logs.append(LogLine(level, message, dict(fields)))
