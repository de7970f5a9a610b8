"""The context of a reconcile: the client, the request, Events, and the plugin's configuration."""

from __future__ import annotations

from typing import Any, Callable, Literal, Mapping, Optional, Union, overload

from ._backend import Backend, Event, RawRequest
from ._client import Client
from ._json import decode_object, encode
from ._kind import kind_of, named
from ._object import Object
from ._results import OperationResult, Request, Requeue, Response
from ._upsert import CreateOrUpdate
from .errors import NotFoundError
from .owners import add_finalizer, has_finalizer, is_being_deleted, remove_finalizer

# The bytes that need no escape in a query.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


class Context(Client):
    """The client and the request of one reconcile."""

    def __init__(self, backend: Backend, request: Request) -> None:
        super().__init__(backend)
        self.request = request
        """The key to reconcile, its number of failures so far, and the reconcile's id."""

    @overload
    def create_or_update(self, obj: Object) -> CreateOrUpdate: ...

    @overload
    def create_or_update(self, obj: Object, mutate: Callable[[Object], Any]) -> tuple[Object, OperationResult]: ...

    def create_or_update(
        self, obj: Object, mutate: Optional[Callable[[Object], Any]] = None
    ) -> Union[CreateOrUpdate, tuple[Object, OperationResult]]:
        """Creates an object, or updates the stored one if the desired fields differ (controller-runtime's
        `CreateOrUpdate`).

            with ctx.create_or_update(kinds.ConfigMap.new("settings", "default")) as config_map:
                config_map.data = {"colour": "blue"}

        The block gets the stored object, or `obj` if there is none, and sets the desired fields. Set only the fields
        that you care for, to values that the API server does not rewrite. An absent field, None, and an empty list or
        dict are equal. The status is not written.

        Args:
            obj: The kind, name and namespace; also the initial fields of a new object.
            mutate: A function instead of the block. The call then returns the stored object and the result.

        Raises:
            ConflictError: The object has changed since it was read.
            TerminalError: The block changed the object's kind, name or namespace.
        """
        operation = CreateOrUpdate(self, obj)
        if mutate is None:
            return operation
        with operation as target:
            mutate(target)
        return operation.object, operation.result

    def finalizer(
        self,
        obj: Object,
        name: str,
        apply: Callable[[Object], Optional[Requeue]],
        cleanup: Callable[[Object], Optional[Requeue]],
    ) -> Optional[Requeue]:
        """Runs `apply` on a live object and `cleanup` on one that is being deleted, and returns the function's result.

        - The finalizer is on the object before `apply` runs, so no deletion is missed.
        - The finalizer is removed when `cleanup` returns None. A requeue keeps it.
        - An object that is being deleted without the finalizer is skipped.

        The finalizer is written with a merge patch: the ServiceAccount needs the verb `patch` on the kind.
        `operetta generate rbac` grants it if the controller declares the finalizer with `finalizers=`.

        Args:
            obj: The object.
            name: The finalizer's name, e.g. `example.com/cleanup`.
            apply: Brings a live object to its desired state.
            cleanup: Removes what the object's deletion leaves behind.

        Raises:
            ConflictError: The object has changed since it was read.
        """
        if not is_being_deleted(obj):
            if add_finalizer(obj, name):
                obj = self._write_finalizers(obj)
            return apply(obj)
        if not has_finalizer(obj, name):
            return None
        result = cleanup(obj)
        if result is None:
            remove_finalizer(obj, name)
            try:
                self._write_finalizers(obj)
            except NotFoundError:
                pass
        return result

    def _write_finalizers(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        change = {"resourceVersion": metadata.get("resourceVersion"), "finalizers": metadata.get("finalizers")}
        return self.patch(obj, obj, {"metadata": change})

    # Warnings, Events, configuration, raw requests

    def take_warnings(self) -> list[str]:
        """Takes the API server's warnings about the calls since the last time, in order.

        They are about fields that it dropped, such as `unknown field "spec.colour"`, deprecated versions, and remarks
        of webhooks and policies. The host reports each text once in the plugin's log, so most plugins need not ask.

        At most 64 texts and 16 KiB are kept until they are taken; later ones are dropped. A call that the host answers
        itself has none: a cached read, or a write that would change nothing.
        """
        return self._backend.take_warnings()

    def event(
        self,
        obj: Mapping[str, Any],
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        action: str = "",
    ) -> None:
        """Records an Event about an object, as `kubectl describe` shows it.

        The host writes it in the background, aggregated and rate limited. The call never fails.

        Args:
            obj: The object that the Event is about.
            reason: The reason, a CamelCase word.
            message: The text for people.
            type: `Normal` or `Warning`.
            action: The action taken, a CamelCase word.
        """
        if type not in ("Normal", "Warning"):
            raise ValueError(f"event {reason}: type is 'Normal' or 'Warning', not {type!r}")
        kind = kind_of(obj)
        uid = (obj.get("metadata") or {}).get("uid")
        self._backend.event(Event(kind, named(obj, kind), uid, type, reason, action, message))

    @property
    def config(self) -> Object:
        """The Plugin's `spec.config`, empty if there is none. Each access reads it again: keep it in a variable."""
        return decode_object(self._backend.config(), "the plugin's config")

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Union[str, Mapping[str, str], None] = None,
        body: Any = None,
        content_type: Optional[str] = None,
        accept: Optional[str] = None,
        cached: bool = False,
    ) -> Response:
        """Sends one HTTP request to the API server, e.g. for subresources and discovery.

        An HTTP error raises no exception: check the response's status.

        Args:
            method: The HTTP method.
            path: The path, e.g. `/api/v1/namespaces/default/pods/web/log`.
            query: Percent-encoded text, or a dict, which is encoded.
            body: Text, or a value that is sent as JSON.
            content_type: The type of the body; of a PATCH its patch type.
            accept: The media type of the response.
            cached: Allows the host's cache to serve a GET.
        """
        text = body if body is None or isinstance(body, str) else encode(body, f"the body of {method} {path}")
        if isinstance(query, Mapping):
            query = "&".join(f"{_escaped(name)}={_escaped(value)}" for name, value in query.items())
        request = RawRequest(method.upper(), path, query or "", content_type, accept, text, cached)
        return Response(*self._backend.raw(request))


def _escaped(text: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in str(text).encode())
