"""The plugin an author writes down: its controllers, what each watches, and the function that reconciles.

plugin = Plugin()

@plugin.controller(Foo, owns=[Deployment], workers=2)
def reconcile(ctx: Context, foo: Object) -> Optional[Requeue]:
    ...
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, Optional, Sequence, TypeVar, Union

from ._context import Context
from ._json import encode
from ._kind import Kind, KindLike, kind_of
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
from ._results import Requeue
from .errors import NotFound, TerminalError

Result = Optional[Requeue]
F = TypeVar("F", bound=Callable[..., Any])


class Controller:
    """One controller, as `Plugin.controller` registers it."""

    def __init__(self, name: str, call: Callable[[Context], Result], form: dict[str, Any], kind: Kind) -> None:
        self.name, self.call, self.form, self.kind = name, call, form, kind


class Plugin:
    """Everything a `.wasm` holds. The build looks for the variable `plugin` in the project's module."""

    def __init__(self) -> None:
        self._controllers: dict[str, Controller] = {}
        self._indexes: list[Index] = []

    def controller(
        self,
        for_: Union[Source, KindLike, None] = None,
        *,
        kind: Optional[str] = None,
        api_version: Optional[str] = None,
        name: Optional[str] = None,
        owns: Sequence[Union[Source, KindLike]] = (),
        watches: Sequence[Watch] = (),
        workers: int = 1,
        resync: Union[timedelta, float, None] = None,
        rate_limiter: Optional[RateLimiter] = None,
        own_namespace: bool = False,
        predicates: Sequence[Predicate] = (),
        when_gone: Optional[Callable[[Context], Result]] = None,
        pass_object: bool = True,
    ) -> Callable[[F], F]:
        """Registers a function `(ctx, object)` as the reconciler of a kind. It is returned unchanged.

        for_: the kind whose keys are reconciled, or a `Source` of it; `kind=` and `api_version=` say it, too.
        name: the controller's, a DNS label; the kind in lower case if left out.
        owns: kinds whose objects it makes: their events enqueue the controlling owner.
        watches: other kinds, each with a mapping to keys.
        workers: how many keys are reconciled at once, 1 to 64; a key never runs twice at once.
        resync: enqueue every key again after this time (seconds, or a timedelta; rounded up to a second).
        rate_limiter: how fast failed and requeued keys come back; client-go's if left out.
        own_namespace: watch the Plugin's own namespace only, with every source.
        predicates: event filters on every source; for one source, say them on the `Source`.
        when_gone: called with the context alone when the object does not exist; if left out, nothing is done then.
        pass_object: False calls the function with the context alone, whether the object exists or not.

        The function returns None when it is done, or `requeue()`. What it raises is retried; see `operetta.errors`.

        Raises `ManifestError` if the host would refuse this.
        """
        if for_ is None:
            if not kind or not api_version:
                raise ManifestError("a controller says what it reconciles: plugin.controller(Kind('group/v1', 'Foo'))")
            for_ = Kind(api_version, kind)
        elif kind or api_version:
            raise ManifestError("say the kind once: either for_, or kind= and api_version=")
        source = source_of(for_)
        name = checked_name(source.kind.kind.lower() if name is None else name)
        if name in self._controllers:
            raise ManifestError(f"two controllers are called {name!r}; give one another name=")
        every = tuple(predicates)
        Source(source.kind, predicates=every)  # checks them
        form: dict[str, Any] = {"name": name, "for": source.manifest(own_namespace, every)}
        if owns:
            form["owns"] = [source_of(owned).manifest(own_namespace, every) for owned in owns]
        if watches:
            form["watches"] = [
                {"source": source_of(watch.source).manifest(own_namespace, every), "map": watch.map.form}
                for watch in watches
            ]
        form["workers"] = number("workers", workers, 1, 64)
        form["resyncSeconds"] = _seconds(resync)
        if rate_limiter is not None:
            form["rateLimiter"] = rate_limiter.manifest()

        def register(function: F) -> F:
            if not callable(function):
                raise ManifestError(f"controller {name!r}: @plugin.controller(…) stands above a function")
            call = function if not pass_object else _with_object(function, source.kind, when_gone)
            self._controllers[name] = Controller(name, call, form, source.kind)
            return function

        return register

    def index(
        self, name: str, of: KindLike, path: Optional[str] = None, *, controller: Optional[KindLike] = None
    ) -> None:
        """Declares an index over the cached objects of a kind, for `Context.list(index=(name, value))`.

        path: where the indexed value stands, e.g. `.spec.nodeName`: a string, number or boolean.
        controller: instead of a path: the value is the name of the controlling owner, if that is of this kind.

        Raises `ManifestError` if it says neither or both, or the kind has an index of that name already.
        """
        if (path is None) == (controller is None):
            raise ManifestError(f"index {name!r}: say path= or controller=, one of them")
        kind = kind_of(of)
        if any((name, kind) == (other.name, other.kind) for other in self._indexes):
            raise ManifestError(f"index {name!r} of {kind} is declared twice")
        path = checked_path(path) if path is not None else None
        self._indexes.append(Index(name, kind, path, None if controller is None else kind_of(controller)))

    def manifest(self) -> str:
        """The manifest that the host reads, as JSON. Raises `ManifestError` if there is no controller."""
        if not self._controllers:
            raise ManifestError("the plugin has no controller: put @plugin.controller(…) above a function")
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
        """Hands the context's request to the controller that it names, and checks the answer."""
        controller = self._controllers.get(ctx.request.controller)
        if controller is None:
            raise TerminalError(f"this plugin has no controller {ctx.request.controller!r}")
        result = controller.call(ctx)
        if result is not None and not isinstance(result, Requeue):
            raise TerminalError(
                f"controller {controller.name!r} returned {type(result).__name__}: return None when done, or requeue()"
            )
        return result


def _with_object(
    function: Callable[..., Result], kind: Kind, when_gone: Optional[Callable[[Context], Result]]
) -> Callable[[Context], Result]:
    def call(ctx: Context) -> Result:
        try:
            obj = ctx.get(kind, ctx.request.key)
        except NotFound:
            return when_gone(ctx) if when_gone else None
        return function(ctx, obj)

    return call


def _seconds(period: Union[timedelta, float, None]) -> int:
    if period is None:
        return 0
    seconds = period.total_seconds() if isinstance(period, timedelta) else float(period)
    if not seconds >= 0:
        raise ManifestError(f"resync={period!r}: the time must not be negative")
    return number("resync", int(-(-seconds // 1)), 0)
