"""Write Operetta plugins in Python.

A plugin is a set of controllers that a host runs for you: it watches, queues, retries and caches; you bring one object
to its desired state at a time. A reconciler is a plain function, without `async` and without a client to set up:

    from operetta import Context, Object, Plugin, kinds

    plugin = Plugin()

    @plugin.controller(kinds.ConfigMap, own_namespace=True)
    def stamp(ctx: Context, config_map: Object) -> None:
        if not config_map.dig("metadata", "annotations", "stamped"):
            config_map.ensure("metadata", "annotations")["stamped"] = "yes"
            ctx.update(config_map)

Each reconcile runs in a fresh instance: nothing in memory survives it, so keep state in objects. What is logged with
`logging` appears in `operetta logs PLUGIN`. `operetta.testing` runs reconcilers in unit tests, without a cluster.
"""

from . import kinds
from ._context import Context, OperationResult, Page, Response
from ._kind import Key, Kind
from ._manifest import ManifestError, Mapping, RateLimiter, Source, Watch
from ._object import Object
from ._plugin import Plugin
from ._results import Request, Requeue, requeue
from .errors import (
    AlreadyExists,
    AlreadyOwned,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    OtherApiError,
    Status,
    TerminalError,
    TimedOut,
    TooManyRequests,
    Unavailable,
)
from .owners import (
    add_finalizer,
    controller_of,
    has_finalizer,
    is_being_deleted,
    is_controlled_by,
    owner_reference,
    remove_finalizer,
    set_controller_reference,
)

__all__ = [
    "AlreadyExists", "AlreadyOwned", "ApiError", "BadRequest", "Cause", "Conflict", "Context", "Expired", "Forbidden",
    "Invalid", "Key", "Kind", "ManifestError", "Mapping", "NotFound", "Object", "OperationResult", "OtherApiError",
    "Page", "Plugin", "RateLimiter", "Request", "Requeue", "Response", "Source", "Status", "TerminalError", "TimedOut",
    "TooManyRequests", "Unavailable", "Watch", "add_finalizer", "controller_of", "has_finalizer", "is_being_deleted",
    "is_controlled_by", "kinds", "owner_reference", "remove_finalizer", "requeue", "set_controller_reference",
]  # fmt: skip
