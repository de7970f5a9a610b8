"""The plugin's declaration: its controllers, their watches, and their reconcilers.

plugin = Plugin()

@plugin.controller(Foo, owns=[kinds.Deployment], workers=2)
def reconcile(ctx: Context, foo: Object) -> Optional[Requeue]:
    ...
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

from ._context import Context
from ._json import encode
from ._kind import Key, Kind, KindLike, kind_of
from ._manifest import (
    Index,
    ManifestError,
    Predicate,
    RateLimiter,
    Source,
    Watch,
    checked_name,
    checked_path,
    number,
    source_of,
)
from ._mapping import MapEvent, MappedWatch, mapped_keys
from ._results import Requeue
from .errors import NotFoundError, TerminalError

Result = Optional[Requeue]
F = TypeVar("F", bound=Callable[..., Any])


class Controller(NamedTuple):
    """A controller as `Plugin.controller` registers it."""

    name: str
    call: Callable[[Context], Result]
    form: dict[str, Any]
    mapped: list[MappedWatch]
    """The watches with a function."""


class Plugin:
    """The controllers and indexes of one component. The build takes the variable `plugin` of the project's module."""

    def __init__(self) -> None:
        self._controllers: dict[str, Controller] = {}
        self._indexes: list[Index] = []

    def controller(
        self,
        kind: Union[Source, KindLike, str, None] = None,
        *,
        api_version: Optional[str] = None,
        name: Optional[str] = None,
        labels: Union[str, Mapping[str, str], None] = None,
        fields: Union[str, Mapping[str, str], None] = None,
        owns: Sequence[Union[Source, KindLike]] = (),
        watches: Sequence[Watch] = (),
        finalizers: Sequence[str] = (),
        workers: int = 1,
        resync: Union[timedelta, float, None] = None,
        rate_limiter: Optional[RateLimiter] = None,
        own_namespace: bool = False,
        predicates: Sequence[Predicate] = (),
        on_deleted: Optional[Callable[[Context], Result]] = None,
        pass_object: bool = True,
    ) -> Callable[[F], F]:
        """Registers a function `(ctx, object)` as the reconciler of a kind, and returns it unchanged.

        The function returns None when it is done, or `requeue()`. An exception is retried, except `TerminalError`.

        Args:
            kind: The kind to reconcile; with `api_version` its name, e.g. `"Foo"`.
            api_version: The kind's group and version, e.g. `"example.com/v1"`, if `kind` is a name.
            name: The controller's name, a DNS label; the kind in lower case if None.
            labels: A label selector on the kind, or a dict of equal labels.
            fields: A field selector on the kind, or a dict of equal fields.
            owns: Kinds of the children: an event of a child reconciles its controlling owner.
            watches: Other kinds, each with a mapping to keys.
            finalizers: The finalizers that the function puts on the objects, e.g. by `Context.finalizer`. With them,
                `operetta generate rbac` grants the verbs `update` and `patch` on the kind.
            workers: The number of keys reconciled at once, 1 to 64. A key is never reconciled twice at once.
            resync: The period after which every key is reconciled again: seconds, or a timedelta, rounded up to a
                second.
            rate_limiter: The delays of failed and requeued keys; client-go's if None.
            own_namespace: Watches only the Plugin's own namespace, in every source.
            predicates: Event filters on every source. A `Source` may have its own.
            on_deleted: Called with the context alone if the object does not exist. None does nothing then.
            pass_object: False calls the function with the context alone, whether the object exists or not.

        Raises:
            ManifestError: The host would refuse the declaration.
        """
        source = _primary_source(kind, api_version, labels, fields)
        name = checked_name(source.kind.kind.lower() if name is None else name)
        if name in self._controllers:
            raise ManifestError(f"two controllers are named {name!r}; set name= on one of them")
        shared = tuple(predicates)
        Source(source.kind, predicates=shared)  # validates them
        form: dict[str, Any] = {"name": name, "for": source.manifest(own_namespace, shared)}
        if owns:
            form["owns"] = [source_of(owned).manifest(own_namespace, shared) for owned in owns]
        if watches:
            form["watches"] = [
                {"source": source_of(watch.source).manifest(own_namespace, shared), "map": watch.map.form}
                for watch in watches
            ]
        if finalizers:
            form["finalizers"] = _finalizers(finalizers)
        mapped = [
            MappedWatch(source_of(watch.source).kind, watch.map.keys) for watch in watches if watch.map.keys is not None
        ]
        form["workers"] = number("workers", workers, 1, 64)
        form["resyncSeconds"] = _seconds(resync)
        if rate_limiter is not None:
            form["rateLimiter"] = rate_limiter.manifest()

        def register(function: F) -> F:
            if not callable(function):
                raise ManifestError(f"controller {name!r}: @plugin.controller(…) decorates a function")
            call = function if not pass_object else _with_object(function, source.kind, on_deleted)
            self._controllers[name] = Controller(name, call, form, mapped)
            return function

        return register

    def index(
        self,
        name: str,
        kind: KindLike,
        path: Optional[str] = None,
        *,
        label: Optional[str] = None,
        controller: Optional[KindLike] = None,
    ) -> None:
        """Declares an index over the cached objects of a kind, for `Context.list(index=(name, value))`.

        Args:
            name: The index's name.
            kind: The kind of the indexed objects.
            path: The path of the indexed value, e.g. `.spec.nodeName`: a string, number or boolean.
            label: Instead of a path: indexes the value of this label, e.g. `app.kubernetes.io/name`. Cached lists whose
                label selector requires one value of it use the index, too.
            controller: Instead of a path: indexes the name of the controlling owner, if it is of this kind.

        Raises:
            ManifestError: Not exactly one of `path`, `label` and `controller` is set, or the kind has an index of that
                name.
        """
        if [path, label, controller].count(None) != 2:
            raise ManifestError(f"index {name!r}: set one of path=, label= and controller=")
        kind = kind_of(kind)
        if any((name, kind) == (other.name, other.kind) for other in self._indexes):
            raise ManifestError(f"index {name!r} of {kind} is declared twice")
        path = checked_path(path) if path is not None else None
        self._indexes.append(Index(name, kind, path, label, None if controller is None else kind_of(controller)))

    def manifest(self) -> str:
        """Returns the manifest that the host reads, as JSON.

        Raises:
            ManifestError: The plugin has no controller.
        """
        if not self._controllers:
            raise ManifestError("the plugin has no controller: decorate a function with @plugin.controller(…)")
        form: dict[str, Any] = {"apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest"}
        form["controllers"] = [controller.form for controller in self._controllers.values()]
        if self._indexes:
            form["indexes"] = [index.manifest() for index in self._indexes]
        return encode(form, "the manifest")

    @property
    def indexes(self) -> Sequence[Index]:
        """The declared indexes."""
        return tuple(self._indexes)

    def reconcile(self, ctx: Context) -> Result:
        """Runs the controller that the context's request names, and returns its result.

        Raises:
            TerminalError: The plugin has no such controller, or its reconciler returned something else than None or
                `requeue()`.
        """
        controller = self._controller(ctx.request.controller)
        result = controller.call(ctx)
        if result is not None and not isinstance(result, Requeue):
            raise TerminalError(
                f"controller {controller.name!r} returned {type(result).__name__}: return None when done, or requeue()"
            )
        return result

    def map(self, event: MapEvent) -> list[Key]:
        """Returns the keys of an event by the functions of `Mapping.custom`, including those of the old state.

        Raises:
            TerminalError: The plugin has no such controller.
        """
        return mapped_keys(self._controller(event.controller).mapped, event)

    def _controller(self, name: str) -> Controller:
        controller = self._controllers.get(name)
        if controller is None:
            raise TerminalError(f"the plugin has no controller {name!r}")
        return controller


def _primary_source(
    kind: Union[Source, KindLike, str, None],
    api_version: Optional[str],
    labels: Union[str, Mapping[str, str], None],
    fields: Union[str, Mapping[str, str], None],
) -> Source:
    """Returns the source of the kind that a controller reconciles."""
    if isinstance(kind, str) and kind and api_version:
        kind = Kind(api_version, kind)
    elif not kind or isinstance(kind, str):
        raise ManifestError("the controller has no kind: plugin.controller(Kind('group/v1', 'Foo'))")
    elif api_version:
        raise ManifestError("set api_version= only if the kind is a name: plugin.controller('Foo', api_version=…)")
    if not isinstance(kind, Source):
        return Source(kind, labels=labels, fields=fields)
    if labels or fields:
        raise ManifestError(f"{kind.kind}: set the selectors either on the Source or as labels= and fields=")
    return kind


def _with_object(
    function: Callable[..., Result], kind: Kind, on_deleted: Optional[Callable[[Context], Result]]
) -> Callable[[Context], Result]:
    def call(ctx: Context) -> Result:
        try:
            obj = ctx.get(kind, ctx.request.key)
        except NotFoundError:
            return on_deleted(ctx) if on_deleted else None
        return function(ctx, obj)

    return call


def _finalizers(names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise ManifestError(f"finalizers={names!r}: the finalizers are a list")
    return list(names)


def _seconds(period: Union[timedelta, float, None]) -> int:
    if period is None:
        return 0
    seconds = period.total_seconds() if isinstance(period, timedelta) else float(period)
    if not seconds >= 0:
        raise ManifestError(f"resync={period!r}: the period must not be negative")
    return number("resync", int(-(-seconds // 1)), 0)
