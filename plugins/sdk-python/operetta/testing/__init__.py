"""The test kit: runs reconcilers in unit tests, with pytest or unittest, on an embedded API server.

A `Cluster` is an API server of its own, empty at first. The test server of `operetta test` runs it in a few
milliseconds, without a control plane: validation, defaults, schemas, server-side apply, conflicts, finalizers and
selectors are those of Kubernetes, and reads and errors those of the host. Reconcilers run in it as in the host, but in
Python's own interpreter. It records their writes, Events and logs:

    cluster = Cluster(kinds.ConfigMap.new("a", "ns"))
    assert cluster.reconcile(plugin, ("ns", "a")) is None
    assert cluster.get(kinds.ConfigMap, ("ns", "a")).metadata.annotations["stamped"] == "yes"

`operetta test` runs a project's tests with a server that has the project's CRDs. Other runners work as well: the kit
then starts `operetta test --serve` once per process, the program that the variable OPERETTA names or the one on PATH.

The cluster runs no controllers: nothing is garbage collected, no Pod becomes ready, and a test changes objects itself
through `Cluster.context`. It has no RBAC. Namespaces are created for their first objects. A custom kind of a group that
the project does not define gets a definition without a schema with its first object, or by `Cluster.define`.

When a test fails under pytest, its report shows the objects of its clusters and their calls (`Cluster.dump`). With
unittest, `operetta.testing.TestCase` does the same.
"""

from __future__ import annotations

import logging
from typing import Any, Literal, Mapping, NamedTuple, Optional

from .._backend import Event
from .._context import Context
from .._json import decode_object, encode
from .._kind import KindLike, NameLike, key_of, kind_of, named
from .._logging import Fields, HostHandler
from .._object import Object
from .._plugin import Plugin
from .._results import Request, Requeue
from ..errors import ApiError, NotFoundError
from ._backend import TestBackend, Write
from ._server import ServerFault
from ._unittest import TestCase

__all__ = ["Cluster", "Event", "LogLine", "ServerFault", "TestCase", "Write"]

Verb = Literal["get", "list", "create", "update", "update_status", "patch", "delete"]


class LogLine(NamedTuple):
    """A log line of a reconciler."""

    level: str
    """One of error, warn, info, debug and trace."""
    message: str
    fields: dict[str, str]
    """The fields of `extra=`, and the logger's name."""


class Cluster:
    """An API server for one test. It ends with this object."""

    def __init__(self, *objects: Mapping[str, Any], config: Optional[Mapping[str, Any]] = None) -> None:
        """Builds a cluster.

        Args:
            objects: The initial objects, as `add` takes them.
            config: The Plugin's `spec.config`.

        Raises:
            ServerFault: The API server rejects an object, or there is no test server.
        """
        self._backend = TestBackend()
        self._logs: list[LogLine] = []
        self._reconciles = 0
        if config is not None:
            self._backend.config_text = encode(config, "the config")
        for obj in objects:
            self.add(obj)

    def add(self, obj: Mapping[str, Any]) -> Object:
        """Adds an object with its status, and returns it as stored.

        The object has to be valid: the API server validates it and sets defaults. It keeps its uid, creationTimestamp,
        generation and deletionTimestamp if it has them.

        Raises:
            ServerFault: The API server rejects the object, or an object of this kind and key exists.
        """
        kind, key = kind_of(obj), key_of(obj)
        what = f"{kind} {key}"
        return decode_object(self._backend.add(encode(obj, what)), what)

    def define(
        self, kind: KindLike, *, plural: Optional[str] = None, namespaced: bool = True, status: bool = True
    ) -> "Cluster":
        """Defines a custom kind without a schema, and returns the cluster.

        A kind of the project's CRDs keeps its definition. Another kind gets one with its first object: with the status
        subresource, and namespaced if the object has a namespace.

        Args:
            kind: The kind.
            plural: The resource's name, e.g. `foos`; by default the plural as kubectl guesses it.
            namespaced: False for a cluster-scoped kind.
            status: False for a kind without the status subresource: its status is then an ordinary field.
        """
        self._backend.define(kind_of(kind), plural, namespaced, status)
        return self

    def without_status_subresource(self, kind: KindLike) -> "Cluster":
        """Defines a custom kind without the status subresource, and returns the cluster. See `define`."""
        return self.define(kind, status=False)

    def fail_next(self, verb: Verb, error: ApiError) -> None:
        """Makes the next call of a verb fail with an error. Several errors are raised in order."""
        self._backend.faults.append((verb, error))

    def set_raw_response(self, method: str, path: str, status: int, body: Any) -> None:
        """Sets the response to raw requests of this method and path, which are then not sent to the API server."""
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
        manifest = plugin.manifest()
        if controller is None:
            if len(names) != 1:
                raise ValueError(f"set controller= to one of {', '.join(names)}")
            controller = names[0]
        self._backend.declare(manifest)
        self._backend.take_warnings()  # those of earlier calls are not about this reconcile
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
        """Returns an object, or None if it does not exist. An error set by `fail_next` does not fail it."""
        kind = kind_of(kind)
        key = named(name, kind, namespace)
        try:
            return decode_object(self._backend.look(kind, key), f"{kind} {key}")
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

    def dump(self) -> str:
        """Returns the objects of the cluster, without the values of Secrets, and the calls so far, for people."""
        return self._backend.dump()

    def _keep(self, level: str, message: str, fields: Fields) -> None:
        self._logs.append(LogLine(level, message, dict(fields)))
