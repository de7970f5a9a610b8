"""The guest's side of the contract: the backend over its imports, and its exports. Imported in a component only: the
build makes `wit_world` from the contract."""

# mypy: ignore-errors

import gc
import logging
import sys

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import reconciler
from wit_world.imports import config, events, log, objects, raw, types

from . import _logging, errors
from ._context import Context
from ._kind import Key
from ._manifest import ManifestError
from ._outcome import run
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
    types.Error_NotFound: errors.NotFound,
    types.Error_AlreadyExists: errors.AlreadyExists,
    types.Error_Conflict: errors.Conflict,
    types.Error_Invalid: errors.Invalid,
    types.Error_BadRequest: errors.BadRequest,
    types.Error_Forbidden: errors.Forbidden,
    types.Error_Expired: errors.Expired,
    types.Error_TooManyRequests: errors.TooManyRequests,
    types.Error_Unavailable: errors.Unavailable,
    types.Error_TimedOut: errors.TimedOut,
    types.Error_Other: errors.OtherApiError,
}


def _error(err):
    """The exception of a typed error."""
    status = err.value.value
    causes = tuple(errors.Cause(cause.reason, cause.message, cause.field) for cause in status.causes)
    made = errors.Status(status.code, status.reason, status.message, causes, status.retry_after_seconds)
    return _ERROR[type(err.value)](made)


def _write(options):
    return objects.WriteOptions(options.dry_run, options.field_manager, options.strict)


class Host:
    """`_backend.Backend` over the imports. Named tuples and the contract's records have the same fields, so they pass
    as each other."""

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

    def event(self, note):
        events.emit(note.kind, note.key, note.uid, _EVENT[note.type], note.reason, note.action, note.note)

    def config(self):
        return config.get()


_HOST = Host()
_HANDLER = _logging.HostHandler(
    lambda level: log.enabled(_LEVEL[level]), lambda level, text, fields: log.write(_LEVEL[level], text, fields)
)
_DONE = reconciler.Action_Done()
_plugin = None


class Reconciler(exports.Reconciler):
    """What the contract wants exported."""

    def describe(self):
        return _plugin.manifest()

    def reconcile(self, request):
        _start()
        key = Key(request.key.namespace or None, request.key.name)
        asked = Request(request.controller, key, request.retries, request.reconcile_id)
        result, failure = run(_plugin, Context(_HOST, asked))
        sys.stdout.flush()
        if failure is not None:
            raise Err((reconciler.Failure_Terminal if failure.terminal else reconciler.Failure_Retry)(failure.text))
        if result is None:
            return _DONE
        if result.after_ms is None:
            return reconciler.Action_Requeue()
        return reconciler.Action_RequeueAfterMs(result.after_ms)


def _start():
    _HANDLER.start()
    random = sys.modules.get("random")
    if random is not None:
        # Its state came with the memory of the build: every instance would draw the same numbers.
        random.seed()


def export(module, root):
    """Makes the author's module the plugin of this component; called once, at the build, after its import.

    Raises `ManifestError` if the module holds no plugin, or one that the host would refuse.
    """
    global _plugin
    plugin = getattr(module, "plugin", None)
    if not isinstance(plugin, Plugin):
        raise ManifestError(f"{module.__name__}.py has no variable `plugin` that is an operetta.Plugin()")
    plugin.manifest()
    _plugin = plugin
    _logging.roots.append(root)
    _logging.keep_sources(
        [other for other in list(sys.modules.values()) if str(getattr(other, "__file__", "")).startswith(root)]
    )
    logging.root.addHandler(_HANDLER)
    logging.raiseExceptions = False
    # What was made until now lives as long as the instance: the collector need not look at it, nor write to its pages.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
