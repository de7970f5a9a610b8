"""The Operetta SDK: Kubernetes controllers in Python, as plugins of one host.

The host watches, caches, queues and retries. A plugin declares its controllers and brings one object at a time to its
desired state. A reconciler is a plain function, without `async` and without a client to set up:

    from operetta import Context, Object, Plugin, kinds

    plugin = Plugin()

    @plugin.controller(kinds.ConfigMap, own_namespace=True)
    def stamp(ctx: Context, config_map: Object) -> None:
        if not config_map.get_nested("metadata", "annotations", "stamped"):
            config_map.ensure("metadata", "annotations")["stamped"] = "yes"
            ctx.update(config_map)

Each reconcile runs in a fresh instance: nothing in memory survives it, so keep state in objects. Records of `logging`
appear in `operetta logs PLUGIN`. `operetta.testing` runs reconcilers in unit tests, without a cluster.
"""

from . import kinds
from ._context import Context
from ._kind import Key, Kind
from ._manifest import ManifestError, Mapping, RateLimiter, Source, Watch
from ._mapping import MapEvent
from ._object import Object
from ._plugin import Plugin
from ._results import OperationResult, Page, Request, Requeue, Response, requeue
from ._upsert import CreateOrUpdate
from .errors import (
    AlreadyExistsError,
    AlreadyOwnedError,
    ApiError,
    BadRequestError,
    Cause,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    OtherApiError,
    Status,
    TerminalError,
    TimedOutError,
    TooManyRequestsError,
    UnavailableError,
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
    "AlreadyExistsError", "AlreadyOwnedError", "ApiError", "BadRequestError", "Cause", "ConflictError", "Context",
    "CreateOrUpdate", "ExpiredError", "ForbiddenError", "InvalidError", "Key", "Kind", "ManifestError", "MapEvent",
    "Mapping", "NotFoundError", "Object", "OperationResult", "OtherApiError", "Page", "Plugin", "RateLimiter",
    "Request", "Requeue", "Response", "Source", "Status", "TerminalError", "TimedOutError", "TooManyRequestsError",
    "UnavailableError", "Watch", "add_finalizer", "controller_of", "has_finalizer", "is_being_deleted",
    "is_controlled_by", "kinds", "owner_reference", "remove_finalizer", "requeue", "set_controller_reference",
]  # fmt: skip
