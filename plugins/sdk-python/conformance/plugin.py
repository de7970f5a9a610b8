"""The conformance plugin of the Python SDK. plugins/conformance/README.md describes each behaviour."""

import logging
from typing import Callable, Optional

from operetta import (
    ApiError,
    ConflictError,
    Context,
    Key,
    Kind,
    Mapping,
    Object,
    Plugin,
    RateLimiter,
    Requeue,
    Source,
    TerminalError,
    Watch,
    kinds,
    requeue,
    set_controller_reference,
)

ConfigMap = kinds.ConfigMap
Widget = Kind("conformance.operetta.dev/v1", "Widget")
FINALIZER = "conformance.operetta.dev/cleanup"

plugin = Plugin()
plugin.index("colour", ConfigMap, ".data.colour")
plugin.index("app", ConfigMap, label="app")
plugin.index("owner", ConfigMap, controller=ConfigMap)

behaviours: dict[str, Callable[[Context, Object], str]] = {}


def behaviour(*ids: str) -> Callable[[Callable[[Context, Object], str]], Callable[[Context, Object], str]]:
    """Registers the function of a case. It returns its observation."""

    def register(function: Callable[[Context, Object], str]) -> Callable[[Context, Object], str]:
        behaviours.update(dict.fromkeys(ids, function))
        return function

    return register


def woken(waker: Object) -> list[Key]:
    """Returns the keys that a ConfigMap names. The cache has pruned one of the two fields."""
    if waker.data.get("fail"):
        raise RuntimeError("no keys today")
    found = f"{waker.data.get('wakes', '')} {waker.data.get('pruned', '')}".split()
    return [Key(waker.metadata.namespace, name) for name in found]


@plugin.controller(
    Source(ConfigMap, labels="conformance=case"),
    name="cases",
    owns=[Source(ConfigMap, labels="conformance=child")],
    watches=[Watch(Source(ConfigMap, labels="conformance=wake", prune=[".data.pruned"]), Mapping.custom(woken))],
    workers=4,
    own_namespace=True,
    rate_limiter=RateLimiter(base_delay_ms=5, max_delay_ms=1000, qps=1000, burst=1000),
)
def reconcile(ctx: Context, case: Object) -> Optional[Requeue]:
    """Runs the behaviour of one case and writes the observation."""
    name = case.metadata.name
    if name == "finalizer":
        return ctx.finalizer(case, FINALIZER, lambda _: None, clean_up(ctx))
    if case.get_nested("data", "result"):
        return None
    if name.startswith(("result-", "map-")):
        return results(ctx, case)
    run = behaviours.get(name)
    if run is None:
        return finish(ctx, case, f"unsupported: the Python plugin has no {name!r}", "")
    try:
        saw = run(ctx, case)
    except Exception as error:
        logging.exception("the case failed")
        return finish(ctx, case, f"failed: {type(error).__name__}: {error}", "")
    return finish(ctx, case, "ok", saw)


def finish(ctx: Context, case: Object, result: str, saw: str) -> None:
    """Writes the result and the observation into the case."""
    ctx.patch(ConfigMap, case, {"data": {"result": result, "saw": saw}})


def clean_up(ctx: Context) -> Callable[[Object], None]:
    """Returns the cleanup of the finalizer."""

    def cleanup(case: Object) -> None:
        ctx.create_or_update(ConfigMap.new("finalizer-cleaned", case.metadata.namespace), lambda _: None)

    return cleanup


def results(ctx: Context, case: Object) -> Optional[Requeue]:
    """Runs the cases about the results of a reconcile."""
    target = ctx.get(ConfigMap, case.data.target, case.metadata.namespace, live=True)
    runs = f"{target.get_nested('data', 'runs', default='')}{ctx.request.retries} "
    ctx.patch(ConfigMap, target, {"data": {"runs": runs}})
    count = len(runs.split())
    match case.metadata.name:
        case "result-done" | "map-keys" | "map-deleted" | "map-error" | "map-pruned":
            return None
        case "result-requeue":
            return requeue() if count < 3 else None
        case "result-requeue-after":
            return requeue(after=0.3) if count < 2 else None
        case "result-error":
            if count < 3:
                raise RuntimeError("no luck yet")
            return None
        case "result-terminal":
            raise TerminalError("no use to retry")
        case "result-panic":
            if count < 2:
                sing()
            return None
        case other:
            raise TerminalError(f"the Python plugin has no {other!r}")


def sing() -> None:
    """Fails. The case expects this function's name in the traceback."""
    raise RuntimeError("boom at the opera")


def target_of(ctx: Context, case: Object, kind: Kind = ConfigMap, *, live: bool = False) -> Object:
    """Reads the object that the case names."""
    return ctx.get(kind, case.data.target, case.metadata.namespace, live=live)


def config_map(case: Object, name: str, word: Optional[str] = None, label: Optional[str] = None) -> Object:
    """Returns a new ConfigMap of the case."""
    made = ConfigMap.new(name, case.metadata.namespace, labels={"conformance": label} if label else None)
    if word is not None:
        made.data = {"word": word}
    return made


def names(items: list[Object]) -> str:
    """Returns the names of the objects of a list."""
    return ",".join(item.metadata.name for item in items)


def words(call: Callable[[], object]) -> str:
    """Returns the description of the error that a call raises."""
    return error_words(error_of(call))


def error_of(call: Callable[[], object]) -> ApiError:
    """Returns the error that a call raises."""
    try:
        call()
    except ApiError as error:
        return error
    raise AssertionError("the call succeeded, expected an error")


def error_words(error: ApiError) -> str:
    """Returns `VARIANT CODE REASON`."""
    return f"{error.variant} {error.code} {error.reason}"


@behaviour("get-cached")
def get_cached(ctx: Context, case: Object) -> str:
    return target_of(ctx, case).data.word


@behaviour("get-live")
def get_live(ctx: Context, case: Object) -> str:
    return target_of(ctx, case, live=True).data.word


@behaviour("list-labels")
def list_labels(ctx: Context, case: Object) -> str:
    return names(ctx.list(ConfigMap, case.metadata.namespace, labels=case.data.selector))


@behaviour("list-fields")
def list_fields(ctx: Context, case: Object) -> str:
    return names(ctx.list(ConfigMap, case.metadata.namespace, fields={"metadata.name": case.data.target}))


@behaviour("list-empty")
def list_empty(ctx: Context, case: Object) -> str:
    return str(len(ctx.list(ConfigMap, case.metadata.namespace, labels=case.data.selector)))


@behaviour("list-paged")
def list_paged(ctx: Context, case: Object) -> str:
    items: list[Object] = []
    token, pages = None, 0
    while token or not pages:
        page = ctx.list_page(
            ConfigMap, case.metadata.namespace, labels=case.data.selector, limit=2, continue_token=token, live=True
        )
        items += page.items
        token, pages = page.continue_token, pages + 1
    return f"{names(items)} {pages}"


@behaviour("list-index")
def list_index(ctx: Context, case: Object) -> str:
    return names(ctx.list(ConfigMap, case.metadata.namespace, index=("colour", case.data.colour)))


@behaviour("list-label-index")
def list_label_index(ctx: Context, case: Object) -> str:
    return names(ctx.list(ConfigMap, case.metadata.namespace, index=("app", case.data.app)))


@behaviour("list-owner-index")
def list_owner_index(ctx: Context, case: Object) -> str:
    return names(ctx.list(ConfigMap, case.metadata.namespace, index=("owner", case.data.owner)))


@behaviour("get-pruned")
def get_pruned(ctx: Context, case: Object) -> str:
    return str(target_of(ctx, case).get_nested("data", "pruned", default=""))


@behaviour("list-owner")
def list_owner(ctx: Context, case: Object) -> str:
    return names(ctx.list(ConfigMap, case.metadata.namespace, owner=case.data.uid))


@behaviour("list-projection")
def list_projection(ctx: Context, case: Object) -> str:
    items = ctx.list(ConfigMap, case.metadata.namespace, labels=case.data.selector, projection=[".data.word"])
    pairs = ",".join(f"{item.metadata.name}={item.get_nested('data', 'word', default='')}" for item in items)
    other = any("other" in item.get("data", {}) for item in items)
    return f"{pairs} {'true' if other else 'false'}"


@behaviour("read-own-write")
def read_own_write(ctx: Context, case: Object) -> str:
    made = ctx.create(config_map(case, "read-own-write-made", "1", "made"))
    first = ctx.get(ConfigMap, made)
    first_word = first.data.word
    first.data.word = "2"
    ctx.update(first)
    second_word = ctx.get(ConfigMap, made).data.word
    listed = ctx.list(ConfigMap, case.metadata.namespace, labels={"conformance": "made"})
    held = any(item.metadata.name == made.metadata.name and item.data.word == "2" for item in listed)
    ctx.delete(made)
    gone = error_of(lambda: ctx.get(ConfigMap, made))
    return f"{first_word} {second_word} {'true' if held else 'false'} {gone.variant}"


@behaviour("create")
def create(ctx: Context, case: Object) -> str:
    return ctx.create(config_map(case, "create-made", case.data.word)).metadata.uid


@behaviour("create-dry-run")
def create_dry_run(ctx: Context, case: Object) -> str:
    return ctx.create(config_map(case, "dry-made"), dry_run=True).metadata.name


@behaviour("create-strict")
def create_strict(ctx: Context, case: Object) -> str:
    widget = Widget.new("strict-made", case.metadata.namespace, spec={"wrong": 1})
    return words(lambda: ctx.create(widget, strict=True))


@behaviour("create-warning")
def create_warning(ctx: Context, case: Object) -> str:
    ctx.create(Widget.new("warned-made", case.metadata.namespace, spec={"wrong": 1}))
    return "; ".join(ctx.take_warnings())


@behaviour("update")
def update(ctx: Context, case: Object) -> str:
    target = target_of(ctx, case)
    target.data.word = "updated"
    return ctx.update(target).data.word


@behaviour("update-status")
def update_status(ctx: Context, case: Object) -> str:
    widget = target_of(ctx, case, Widget)
    widget.ensure("status").phase = "ready"
    widget.ensure("spec").touched = True
    answer = ctx.update_status(widget)
    return f"{answer.status.phase} {'true' if answer.get_nested('spec', 'touched') else 'false'}"


@behaviour("patch-merge")
def patch_merge(ctx: Context, case: Object) -> str:
    patch = {"data": {"word": "merged", "other": None}}
    answer = ctx.patch(ConfigMap, case.data.target, patch, namespace=case.metadata.namespace)
    return ",".join(f"{key}={value}" for key, value in sorted(answer.data.items()))


@behaviour("patch-json")
def patch_json(ctx: Context, case: Object) -> str:
    patch = [{"op": "replace", "path": "/data/word", "value": "patched"}]
    return ctx.patch(ConfigMap, case.data.target, patch, namespace=case.metadata.namespace).data.word


@behaviour("patch-apply")
def patch_apply(ctx: Context, case: Object) -> str:
    applied = config_map(case, case.data.target, "applied")
    try:
        ctx.apply(applied)
    except ConflictError as error:
        return f"{error_words(error)}; {ctx.apply(applied, force=True).data.word}"
    raise AssertionError("apply without force took a field of another manager")


@behaviour("patch-scale")
def patch_scale(ctx: Context, case: Object) -> str:
    key = (case.metadata.namespace, case.data.target)
    return str(ctx.patch(kinds.Deployment, key, {"spec": {"replicas": 3}}, subresource="scale").spec.replicas)


@behaviour("delete")
def delete(ctx: Context, case: Object) -> str:
    ctx.delete(ConfigMap, case.data.target, case.metadata.namespace)
    return "deleted"


@behaviour("delete-precondition")
def delete_precondition(ctx: Context, case: Object) -> str:
    uid = "00000000-0000-0000-0000-000000000000"
    return words(lambda: ctx.delete(ConfigMap, case.data.target, case.metadata.namespace, uid=uid))


@behaviour("delete-orphan")
def delete_orphan(ctx: Context, case: Object) -> str:
    ctx.delete(ConfigMap, case.data.target, case.metadata.namespace, propagation="Orphan")
    return "deleted"


@behaviour("error-not-found")
def error_not_found(ctx: Context, case: Object) -> str:
    return words(lambda: ctx.get(ConfigMap, "no-such-object", case.metadata.namespace))


@behaviour("error-already-exists")
def error_already_exists(ctx: Context, case: Object) -> str:
    return words(lambda: ctx.create(config_map(case, case.data.target)))


@behaviour("error-conflict")
def error_conflict(ctx: Context, case: Object) -> str:
    target = target_of(ctx, case)
    target.metadata.resourceVersion = "1"
    return words(lambda: ctx.update(target))


@behaviour("error-invalid")
def error_invalid(ctx: Context, case: Object) -> str:
    error = error_of(lambda: ctx.create(config_map(case, "error-invalid-made", label="not/a/label")))
    return f"{error_words(error)} {error.causes[0].field}"


@behaviour("error-bad-request")
def error_bad_request(ctx: Context, case: Object) -> str:
    return words(lambda: ctx.list(ConfigMap, case.metadata.namespace, index=("no-such-index", "x")))


@behaviour("error-forbidden")
def error_forbidden(ctx: Context, case: Object) -> str:
    return words(lambda: ctx.get(kinds.Secret, "hidden", case.metadata.namespace, live=True))


@behaviour("error-expired", "error-too-many-requests", "error-unavailable", "error-timed-out", "error-other")
def error_refused(ctx: Context, case: Object) -> str:
    error = error_of(lambda: ctx.create(config_map(case, case.data.target, label="refuse")))
    if case.metadata.name == "error-too-many-requests":
        return f"{error_words(error)} {error.retry_after_seconds}"
    return error_words(error)


def path(case: Object, name: str = "") -> str:
    """Returns the raw path of a ConfigMap in the case's namespace, or of the collection."""
    collection = f"/api/v1/namespaces/{case.metadata.namespace}/configmaps"
    return f"{collection}/{name}" if name else collection


@behaviour("raw-get")
def raw_get(ctx: Context, case: Object) -> str:
    answer = ctx.raw("GET", path(case, case.data.target))
    return f"{answer.status} {answer.json().data.word}"


@behaviour("raw-post")
def raw_post(ctx: Context, case: Object) -> str:
    answer = ctx.raw("POST", path(case), body=config_map(case, "raw-made"))
    return f"{answer.status} {ctx.get(ConfigMap, 'raw-made', case.metadata.namespace).metadata.name}"


@behaviour("raw-error")
def raw_error(ctx: Context, case: Object) -> str:
    answer = ctx.raw("GET", path(case, "no-such-object"))
    return f"{answer.status} {answer.json().reason}"


@behaviour("raw-watch")
def raw_watch(ctx: Context, case: Object) -> str:
    answer = ctx.raw("GET", path(case), query={"watch": "true"})
    return f"{answer.status} {answer.json().reason}"


@behaviour("event")
def event(ctx: Context, case: Object) -> str:
    ctx.event(case, "Conformed", "it works", action="Test")
    return "emitted"


@behaviour("log")
def log(ctx: Context, case: Object) -> str:
    logging.getLogger("conformance").info("a line for conformance", extra={"colour": "red"})
    return "logged"


@behaviour("config")
def config(ctx: Context, case: Object) -> str:
    return ctx.config.word


@behaviour("create-or-update")
def create_or_update(ctx: Context, case: Object) -> str:
    def bring_to(word: str) -> str:
        operation = ctx.create_or_update(config_map(case, "cou-made"))
        with operation as made:
            made.ensure("data").word = word
        return operation.result

    return " ".join([bring_to("1"), bring_to("1"), bring_to("2")])


@behaviour("owner-reference")
def owner_reference(ctx: Context, case: Object) -> str:
    made = config_map(case, "owned-made", label="child")
    set_controller_reference(case, made)
    ctx.create(made)
    return "created"


@behaviour("unicode")
def unicode(ctx: Context, case: Object) -> str:
    word = target_of(ctx, case).data.word
    return ctx.create(config_map(case, "unicode-made", word)).data.word


@behaviour("big")
def big(ctx: Context, case: Object) -> str:
    word = target_of(ctx, case).data.word
    return str(len(ctx.create(config_map(case, "big-made", word)).data.word.encode()))


@behaviour("null-or-missing")
def null_or_missing(ctx: Context, case: Object) -> str:
    def note(widget: Object) -> str:
        spec = widget.get("spec") or {}
        if "note" not in spec:
            return "missing"
        return "null" if spec["note"] is None else spec["note"]

    namespace = case.metadata.namespace
    seen = [note(ctx.get(Widget, name, namespace)) for name in ("null-note", "no-note")]
    patched = ctx.patch(Widget, "with-note", {"spec": {"note": None}}, namespace=namespace)
    return " ".join([*seen, note(patched)])


def touched(ctx: Context, case: Object) -> Object:
    """Returns the case's Widget after a round trip."""
    widget = target_of(ctx, case, Widget)
    widget.spec.touched = True
    return ctx.update(widget)


@behaviour("int64")
def int64(ctx: Context, case: Object) -> str:
    return str(touched(ctx, case).spec.big)


@behaviour("quantity")
def quantity(ctx: Context, case: Object) -> str:
    return str(touched(ctx, case).spec.size)
