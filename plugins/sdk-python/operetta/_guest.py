"""The guest side of the contract: the backend over the host's imports, and the component's exports.

Only a component imports this module: the build generates `wit_world` from the contract.
"""

# mypy: ignore-errors

import logging
import sys

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import reconciler
from wit_world.imports import config, events, log, objects, raw, types, warnings

from . import _logging, _snapshot, errors
from ._context import Context
from ._kind import Key, Kind
from ._manifest import ManifestError
from ._mapping import MapEvent
from ._outcome import run, run_mapping
from ._plugin import Plugin
from ._results import Request

_READ = {False: objects.Read.CACHED, True: objects.Read.LIVE}
_BODY = {"merge": objects.PatchBody_Merge, "json": objects.PatchBody_Json, "apply": objects.PatchBody_Apply}
_PROPAGATION = {
    None: None,
    "Background": objects.Propagation.BACKGROUND,
    "Foreground": objects.Propagation.FOREGROUND,
    "Orphan": objects.Propagation.ORPHAN,
}
_EVENT = {"Normal": events.Kind.NORMAL, "Warning": events.Kind.WARNING}
_LEVEL = {level.name.lower(): level for level in log.Level}
_ERROR = {
    types.Error_NotFound: errors.NotFoundError,
    types.Error_AlreadyExists: errors.AlreadyExistsError,
    types.Error_Conflict: errors.ConflictError,
    types.Error_Invalid: errors.InvalidError,
    types.Error_BadRequest: errors.BadRequestError,
    types.Error_Forbidden: errors.ForbiddenError,
    types.Error_Expired: errors.ExpiredError,
    types.Error_TooManyRequests: errors.TooManyRequestsError,
    types.Error_Unavailable: errors.UnavailableError,
    types.Error_TimedOut: errors.TimedOutError,
    types.Error_Other: errors.OtherApiError,
}


def _error(err):
    """Returns the exception for a typed error."""
    status = err.value.value
    causes = tuple(errors.Cause(cause.reason, cause.message, cause.field) for cause in status.causes)
    made = errors.Status(status.code, status.reason, status.message, causes, status.retry_after_seconds)
    return _ERROR[type(err.value)](made)


def _write(options):
    return objects.WriteOptions(options.dry_run, options.field_manager, options.strict)


class Host:
    """The backend over the host's imports. The named tuples have the fields of the contract's records, so they are
    passed as such."""

    def get(self, kind, key, live):
        try:
            return objects.get(kind, key, _READ[live])
        except Err as err:
            raise _error(err) from None

    def list(self, kind, query):
        if query.by_index is not None:
            selection = objects.Selection_ByIndex(query.by_index)
        elif query.by_owner is not None:
            selection = objects.Selection_ByOwner(query.by_owner)
        else:
            selection = objects.Selection_All()
        options = objects.ListOptions(
            query.namespace, query.labels, query.fields, selection, query.limit, query.continue_token,
            _READ[query.live], list(query.projection),
        )  # fmt: skip
        try:
            page = objects.list(kind, options)
        except Err as err:
            raise _error(err) from None
        return page.items, page.resource_version, page.continue_token

    def create(self, kind, namespace, text, options):
        try:
            return objects.create(kind, namespace, text, options)
        except Err as err:
            raise _error(err) from None

    def update(self, kind, key, text, options, status):
        try:
            return (objects.update_status if status else objects.update)(kind, key, text, options)
        except Err as err:
            raise _error(err) from None

    def patch(self, kind, key, query, options):
        try:
            return objects.patch(kind, key, query.subresource, _BODY[query.type](query.body), query.force, options)
        except Err as err:
            raise _error(err) from None

    def delete(self, kind, key, query):
        options = objects.DeleteOptions(
            query.uid,
            query.resource_version,
            query.grace_period_seconds,
            _PROPAGATION[query.propagation],
            query.dry_run,
        )
        try:
            objects.delete(kind, key, options)
        except Err as err:
            raise _error(err) from None

    def raw(self, request):
        answer = raw.send(request)
        return answer.status, answer.content_type, answer.retry_after_seconds, answer.body

    def take_warnings(self):
        return warnings.take()

    def event(self, event):
        events.emit(
            event.kind, event.key, event.uid, _EVENT[event.type], event.reason, event.action, event.message
        )  # fmt: skip

    def config(self):
        return config.get()


_HOST = Host()
_HANDLER = _logging.HostHandler(
    lambda level: log.enabled(_LEVEL[level]), lambda level, text, fields: log.write(_LEVEL[level], text, fields)
)
_DONE = reconciler.Action_Done()
_plugin = None


class Reconciler(exports.Reconciler):
    """The component's exports."""

    def describe(self):
        return _plugin.manifest()

    def reconcile(self, request):
        _start()
        key = Key(request.key.namespace or None, request.key.name)
        asked = Request(request.controller, key, request.retries, request.reconcile_id)
        result, failure = run(_plugin, Context(_HOST, asked))
        sys.stdout.flush()
        if failure is not None:
            variant = reconciler.Failure_Terminal if failure.terminal else reconciler.Failure_Retry
            raise Err(variant(failure.message))
        if result is None:
            return _DONE
        if result.after_ms is None:
            return reconciler.Action_Requeue()
        return reconciler.Action_RequeueAfterMs(result.after_ms)


class Mapper(exports.Mapper):
    """The component's export for watches with a function."""

    def map_event(self, event):
        _start()
        kind = Kind(event.kind.api_version, event.kind.kind)
        keys, failure = run_mapping(_plugin, MapEvent(event.controller, kind, event.object, event.old))
        sys.stdout.flush()
        if failure is not None:
            raise Err(failure.message)
        return keys


def _start():
    _HANDLER.start()
    random = sys.modules.get("random")
    if random is not None:
        # Its state is in the memory of the build: without a new seed every instance draws the same numbers.
        random.seed()


def export(module, root):
    """Makes the author's module this component's plugin. The build calls it once, after importing the module.

    Raises:
        ManifestError: The module has no plugin, or the host would refuse it.
    """
    use(module)
    _plugin.manifest()
    log_to_host(root)
    _logging.keep_sources(
        [other for other in list(sys.modules.values()) if str(getattr(other, "__file__", "")).startswith(root)]
    )
    _snapshot.prepare()


def use(module):
    """Makes the author's module this component's plugin.

    Raises:
        ManifestError: The module has no plugin.
    """
    global _plugin
    plugin = getattr(module, "plugin", None)
    if not isinstance(plugin, Plugin):
        raise ManifestError(f"{module.__name__}.py has no variable `plugin` of type operetta.Plugin")
    _plugin = plugin


def log_to_host(root):
    """Passes what `logging` gets to the host. Messages leave out this folder of the author's code."""
    _logging.roots.append(root)
    logging.root.addHandler(_HANDLER)
    logging.raiseExceptions = False
