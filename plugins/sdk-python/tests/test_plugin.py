"""Declarations, results and exceptions of plugins, and their forms for the host."""

import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from operetta import (
    AlreadyOwnedError,
    ConflictError,
    Context,
    InvalidError,
    Kind,
    ManifestError,
    Mapping,
    NotFoundError,
    Object,
    OperationResult,
    Plugin,
    RateLimiter,
    Request,
    Requeue,
    Source,
    TerminalError,
    Watch,
    _logging,
    _outcome,
    add_finalizer,
    errors,
    is_controlled_by,
    kinds,
    owner_reference,
    requeue,
    set_controller_reference,
)
from operetta.testing import Cluster

Foo = Kind("e.dev/v1", "Foo")
KEY = ("ns", "a")


def foo(**fields: object) -> Object:
    return Foo.new("a", "ns", **{"spec": {"size": 0}, **fields})


def one(function: object, **options: object) -> Plugin:
    plugin = Plugin()
    plugin.controller(Foo, **options)(function)
    return plugin


def test_manifest_has_every_option() -> None:
    plugin = Plugin()
    plugin.controller(
        kind="Foo", api_version="e.dev/v1",
        owns=[kinds.Deployment, Source(kinds.Secret, labels="a=b", fields="type=x", predicates=["LabelsChanged"])],
        watches=[
            Watch(kinds.Pod, Mapping.field(".spec.nodeName", namespace=".metadata.name")),
            Watch(kinds.Job, Mapping.owner()), Watch(kinds.CronJob, Mapping.all_owners()),
            Watch(kinds.Service, Mapping.same_name()),
            Watch(Source(kinds.Node, prune=[".status", ".metadata.annotations"]), Mapping.custom(lambda node: [])),
        ],
        finalizers=["e.dev/cleanup"], workers=3,
        resync=timedelta(seconds=1.5), rate_limiter=RateLimiter(qps=7), own_namespace=True,
        predicates=["GenerationChanged"],
    )(lambda ctx, obj: None)  # fmt: skip
    plugin.index("node", kinds.Pod, ".spec.nodeName")
    plugin.index("app", kinds.Pod, label="app.kubernetes.io/name")
    plugin.index("owner", kinds.Deployment, controller=Foo)

    def source(api_version: str, kind: str, **more: object) -> dict[str, object]:
        return {
            "apiVersion": api_version,
            "kind": kind,
            "namespaces": "Own",
            "predicates": ["GenerationChanged"],
            **more,
        }

    assert json.loads(plugin.manifest()) == {
        "apiVersion": "operetta.dev/v1alpha1",
        "kind": "Manifest",
        "controllers": [
            {
                "name": "foo",
                "for": source("e.dev/v1", "Foo"),
                "owns": [
                    source("apps/v1", "Deployment"),
                    source("v1", "Secret", labelSelector="a=b", fieldSelector="type=x",
                           predicates=["LabelsChanged", "GenerationChanged"]),
                ],
                "watches": [
                    {
                        "source": source("v1", "Pod"),
                        "map": {"type": "FieldPath", "path": ".spec.nodeName", "namespacePath": ".metadata.name"},
                    },
                    {"source": source("batch/v1", "Job"), "map": {"type": "Owner"}},
                    {"source": source("batch/v1", "CronJob"), "map": {"type": "Owner", "allOwners": True}},
                    {"source": source("v1", "Service"), "map": {"type": "SameName"}},
                    {
                        "source": source("v1", "Node", prune=[".status", ".metadata.annotations"]),
                        "map": {"type": "Custom"},
                    },
                ],
                "finalizers": ["e.dev/cleanup"],
                "workers": 3,
                "resyncSeconds": 2,
                "rateLimiter": {"baseDelayMs": 5, "maxDelayMs": 1000000, "qps": 7, "burst": 100},
            }
        ],
        "indexes": [
            {"name": "node", "apiVersion": "v1", "kind": "Pod", "path": ".spec.nodeName"},
            {"name": "app", "apiVersion": "v1", "kind": "Pod", "label": "app.kubernetes.io/name"},
            {
                "name": "owner", "apiVersion": "apps/v1", "kind": "Deployment",
                "controller": {"apiVersion": "e.dev/v1", "kind": "Foo"},
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be a whole number from 1 to 64, not 0"),
        ({"workers": 65}, "workers"),
        ({"finalizers": "e.dev/cleanup"}, "the finalizers are a list"),
        ({"resync": -1}, "resync"),
        ({"name": "Foo"}, "is not a valid controller name"),
        ({"predicates": ["Changed"]}, "unknown predicate 'Changed'; the predicates are GenerationChanged"),
        ({"api_version": "e.dev/v1"}, "only if the kind is a name"),
        ({"rate_limiter": RateLimiter(qps=0)}, "qps must be a whole number from 1"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        one(lambda ctx, obj: None, **options)


def test_incomplete_or_duplicate_declaration_is_refused() -> None:
    plugin = Plugin()
    with pytest.raises(ManifestError, match="has no controller"):
        plugin.manifest()
    with pytest.raises(ManifestError, match="the controller has no kind"):
        plugin.controller()
    plugin.controller(Foo)(lambda ctx, obj: None)
    with pytest.raises(ManifestError, match="two controllers are named 'foo'"):
        plugin.controller(Foo)
    with pytest.raises(ManifestError, match="one of path=, label= and controller="):
        plugin.index("a", Foo)
    with pytest.raises(ManifestError, match="one of path=, label= and controller="):
        plugin.index("a", Foo, ".spec.x", label="x")
    with pytest.raises(ManifestError, match="not a field path"):
        plugin.index("a", Foo, "spec.x")
    plugin.index("a", Foo, ".spec.x")
    with pytest.raises(ManifestError, match="declared twice"):
        plugin.index("a", Foo, ".spec.y")


def test_deleted_key_is_delivered_as_declared() -> None:
    def fails(ctx: Context, obj: Object) -> None:
        raise AssertionError("the object exists")

    cluster = Cluster()
    assert cluster.reconcile(one(fails), KEY) is None
    assert cluster.reconcile(one(fails, on_deleted=lambda ctx: requeue()), KEY) == Requeue()
    assert cluster.reconcile(one(lambda ctx: requeue(1), pass_object=False), KEY) == Requeue(1000)
    with pytest.raises(TerminalError, match="no controller 'none'"):
        cluster.reconcile(one(fails), KEY, controller="none")


@pytest.mark.parametrize(
    ("delay", "milliseconds"), [(0, 0), (1e-9, 1), (5, 5000), (timedelta(milliseconds=300), 300), (1e30, 2**32 - 1)]
)
def test_delay_is_rounded_up_and_capped(delay: float, milliseconds: int) -> None:
    assert requeue(delay) == Requeue(milliseconds)


def test_invalid_result_is_reported_and_not_retried() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        requeue(-1)
    with pytest.raises(TerminalError, match="returned bool: return None when done, or requeue"):
        Cluster(foo()).reconcile(one(lambda ctx, obj: True), KEY)


def sing() -> None:
    raise RuntimeError("boom at the opera")


def outcome(function: object, cluster: Cluster) -> tuple[object, object]:
    handler = _logging.HostHandler(lambda _: True, cluster._keep)
    logging.root.addHandler(handler)
    try:
        return _outcome.run(one(function), Context(cluster._backend, Request("foo", foo_key())))
    finally:
        logging.root.removeHandler(handler)


def foo_key() -> object:
    from operetta import Key

    return Key(*KEY)


def test_failure_has_location_and_log_has_traceback() -> None:
    cluster = Cluster(foo())

    def reconcile(ctx: Context, obj: Object) -> None:
        try:
            ctx.get(Foo, "none", "ns")
        except NotFoundError as error:
            raise ValueError("no luck") from error

    _, failure = outcome(lambda ctx, obj: sing(), cluster)
    file = Path(__file__).name
    assert not failure.terminal
    assert failure.message.startswith("RuntimeError: boom at the opera at ") and failure.message.endswith(" in sing")
    assert f"{file}:" in failure.message
    (line,) = cluster.logs()
    assert line.level == "error"
    assert "Traceback" in line.message and "in sing" in line.message and "boom at the opera" in line.message
    assert "_outcome.py" not in line.message, "the SDK's frames are omitted"

    outcome(reconcile, cluster)
    (line,) = cluster.logs()
    assert 'foos.e.dev "none" not found' in line.message and "direct cause" in line.message


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), MemoryError()])
def test_every_exception_is_caught(error: BaseException) -> None:
    def reconcile(ctx: Context, obj: Object) -> None:
        raise error

    _, failure = outcome(reconcile, Cluster(foo()))
    assert failure.message.startswith(type(error).__name__) and not failure.terminal


def test_exception_without_message_is_a_failure() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def reconcile(ctx: Context, obj: Object) -> None:
        raise Broken

    _, failure = outcome(reconcile, Cluster(foo()))
    assert failure.message.startswith("Broken at ")


def test_terminal_error_is_not_retried() -> None:
    def reconcile(ctx: Context, obj: Object) -> None:
        raise TerminalError("no use to retry")

    assert outcome(reconcile, Cluster(foo()))[1] == ("no use to retry", True)


def test_every_error_variant_has_its_exception() -> None:
    wit = (Path(_logging.__file__).parent / "wit" / "controller.wit").read_text()
    body = wit.split("variant error {")[1].split("}")[0]
    variants = {line.strip().split("(")[0] for line in body.splitlines() if line.strip().endswith("(status),")}
    classes = [errors.ApiError, *errors.ApiError.__subclasses__()]
    assert len(variants) == 11 and {cls.variant for cls in classes} == variants
    error = InvalidError("no", causes=(errors.Cause("FieldValueInvalid", "too big", "spec.size"),))
    assert str(error) == "no; spec.size: too big"
    assert (error.code, error.reason, error.causes[0].field) == (422, "Invalid", "spec.size")


def test_contract_is_that_of_the_repository() -> None:
    ours = Path(_logging.__file__).parent / "wit" / "controller.wit"
    theirs = Path(__file__).parents[3] / "wit" / "controller.wit"
    if not theirs.exists():
        pytest.skip("this copy of the SDK has no repository")
    assert ours.read_text() == theirs.read_text()


def test_create_or_update_writes_only_changes() -> None:
    cluster = Cluster()
    ctx = cluster.context

    def bring_to(size: int) -> OperationResult:
        def mutate(obj: Object) -> None:
            obj.spec.size = size
            obj.ensure("metadata", "labels")

        return ctx.create_or_update(foo(), mutate)[1]

    assert [str(bring_to(1)), bring_to(1), bring_to(2)] == ["created", OperationResult.UNCHANGED, "updated"]
    assert cluster.writes() == ["create Foo ns/a", "update Foo ns/a"]

    def rename(obj: Object) -> None:
        obj.metadata.name = "b"

    with pytest.raises(TerminalError, match="e.dev/v1 Foo ns/a became e.dev/v1 Foo ns/b"):
        ctx.create_or_update(foo(), rename)


def test_create_or_update_block_writes_on_exit_if_changed() -> None:
    cluster = Cluster()
    results = []
    for size in (1, 1, 2):
        operation = cluster.context.create_or_update(foo())
        with operation as obj:
            obj.spec.size = size
        results.append((operation.result, operation.changed))
        assert obj is operation.object and obj.metadata.uid, "the block's variable is the stored object"
    assert results == [("created", True), ("unchanged", False), ("updated", True)]
    assert cluster.writes() == ["create Foo ns/a", "update Foo ns/a"]


def test_create_or_update_block_with_exception_writes_nothing() -> None:
    cluster = Cluster()
    with pytest.raises(RuntimeError), cluster.context.create_or_update(foo()):
        raise RuntimeError("not today")
    assert cluster.writes() == []
    renamed = pytest.raises(TerminalError, match="e.dev/v1 Foo ns/a became e.dev/v1 Foo ns/b")
    with renamed, cluster.context.create_or_update(foo()) as obj:
        obj.metadata.name = "b"


def test_controller_selectors_apply_to_its_kind_only() -> None:
    plugin = one(lambda ctx, obj: None, labels={"a": "b", "c": "d"}, fields="metadata.name=x", owns=[kinds.Secret])
    (controller,) = json.loads(plugin.manifest())["controllers"]
    assert controller["for"] == {
        "apiVersion": "e.dev/v1", "kind": "Foo", "labelSelector": "a=b,c=d", "fieldSelector": "metadata.name=x",
    }  # fmt: skip
    assert controller["owns"] == [{"apiVersion": "v1", "kind": "Secret"}]
    with pytest.raises(ManifestError, match="either on the Source or as labels="):
        Plugin().controller(Source(Foo, labels="a=b"), labels="c=d")


def test_finalizer_applies_then_cleans_up_then_is_removed() -> None:
    applied = []

    def reconcile(ctx: Context, obj: Object) -> object:
        return ctx.finalizer(
            obj,
            "e.dev/f",
            lambda obj: applied.append(obj.metadata.name),
            lambda obj: requeue() if obj.spec.size else None,
        )

    plugin, cluster = one(reconcile), Cluster(foo(spec={"size": 1}))
    cluster.reconcile(plugin, KEY)
    cluster.reconcile(plugin, KEY)
    assert cluster.writes() == ["patch Foo ns/a"], "the finalizer is added once"
    assert applied == ["a", "a"]
    cluster.context.delete(cluster.get(Foo, KEY))
    assert cluster.reconcile(plugin, KEY) == Requeue()
    cluster.context.patch(Foo, KEY, {"spec": {"size": 0}})
    assert cluster.reconcile(plugin, KEY) is None
    assert cluster.get(Foo, KEY) is None


def test_controller_reference_is_set_once() -> None:
    owner = Cluster().add(foo())
    child = kinds.Secret.new("child", "ns")
    for _ in range(2):
        set_controller_reference(owner, child)
    assert child.metadata.ownerReferences == [owner_reference(owner)]
    assert is_controlled_by(child, owner)
    other = Foo.new("b", "ns")
    other.metadata.uid = "2"
    with pytest.raises(AlreadyOwnedError, match="Secret ns/child is already controlled by Foo a"):
        set_controller_reference(other, child)
    successor = owner.copy()
    successor.metadata.uid = "other"
    assert not is_controlled_by(child, successor) and not is_controlled_by(child, foo())


def test_owner_without_uid_or_in_other_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="Foo ns/a has no uid"):
        set_controller_reference(foo(), kinds.Secret.new("child", "ns"))
    with pytest.raises(ValueError, match="another namespace"):
        set_controller_reference(Cluster().add(foo()), kinds.Secret.new("child", "other"))


def test_invalid_call_is_refused_before_it_is_sent() -> None:
    ctx = Cluster().context
    for call, error, message in [
        (lambda: ctx.create(Object(kind="Foo")), ValueError, "needs apiVersion and kind"),
        (lambda: ctx.create(Object(apiVersion="v1", kind="Foo")), ValueError, "this v1 Foo has no metadata.name"),
        (lambda: ctx.get(Foo, ""), ValueError, "this e.dev/v1 Foo has no metadata.name"),
        (lambda: ctx.get("Foo", "a"), TypeError, "a kind must be a Kind"),
        (lambda: ctx.get(Foo, 3), TypeError, "a name must be a str"),
        (lambda: ctx.create(foo(spec={"at": timedelta(1)})), TypeError, "e.dev/v1 Foo ns/a cannot be written as JSON"),
        (lambda: ctx.delete(Foo, KEY, propagation="background"), ValueError, "propagation is one of Background"),
        (lambda: ctx.list(Foo, owner=foo()), ValueError, "the owner ns/a has no uid"),
        (lambda: ctx.list(Foo, projection=".spec"), TypeError, "projection is a list"),
        (lambda: ctx.event(foo(), "A", "b", type="Bad"), ValueError, "'Normal' or 'Warning'"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_finalizer_is_added_in_memory_once() -> None:
    obj = foo()
    assert add_finalizer(obj, "a") and not add_finalizer(obj, "a")
    assert obj.metadata.finalizers == ["a"]


def test_disabled_log_level_is_queried_once() -> None:
    asked, written = [], []

    def enabled(level: str) -> bool:
        asked.append(level)
        return level in ("error", "warn", "info")

    handler = _logging.HostHandler(enabled, lambda *line: written.append(line))
    before = logging.root.level
    logging.root.addHandler(handler)
    try:
        handler.start()
        for _ in range(3):
            logging.debug("no")
            logging.info("yes %s", 1, extra={"colour": "red"})
    finally:
        logging.root.removeHandler(handler)
        logging.root.setLevel(before)
    assert asked == ["debug", "info"]
    assert written == [("info", "yes 1", [("colour", "red")])] * 3


def test_malformed_log_line_is_written() -> None:
    written = []
    handler = _logging.HostHandler(lambda _: True, lambda *line: written.append(line))
    handler.emit(logging.makeLogRecord({"msg": "%d", "args": ("x",), "levelno": 20}))
    assert "'%d' % ('x',): TypeError" in written[0][1]


def test_fail_next_causes_conflict() -> None:
    cluster = Cluster(foo())
    cluster.fail_next("update", ConflictError("stale"))
    with pytest.raises(ConflictError):
        cluster.reconcile(one(lambda ctx, obj: ctx.update(obj) and None), KEY)
