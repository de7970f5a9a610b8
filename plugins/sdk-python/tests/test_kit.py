"""The test kit sends the calls to the API server of its cluster, and records what a reconciler does."""

import pytest

from operetta import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    Context,
    InvalidError,
    Kind,
    NotFoundError,
    Object,
    Plugin,
    UnavailableError,
    kinds,
    set_controller_reference,
)
from operetta.testing import Cluster, ServerFault

Foo = Kind("e.dev/v1", "Foo")
KEY = ("ns", "a")


def foo(name: str = "a", **fields: object) -> Object:
    return Foo.new(name, "ns", **{"spec": {"size": 0}, **fields})


def test_create_sets_system_fields_and_drops_status() -> None:
    ctx = Cluster().context
    made = ctx.create(foo(status={"phase": "mine"}))
    assert made.metadata.generation == 1 and "status" not in made
    assert made.metadata.uid and made.metadata.resourceVersion and made.metadata.creationTimestamp
    with pytest.raises(AlreadyExistsError):
        ctx.create(foo())
    with pytest.raises(UnavailableError):
        ctx.create(made)


def test_stale_update_conflicts_and_noop_update_keeps_version() -> None:
    ctx = Cluster(foo()).context
    first = ctx.get(Foo, KEY)
    stale = first.copy()
    first.spec.size = 3
    second = ctx.update(first)
    assert second.metadata.generation == 2
    assert ctx.update(second).metadata.resourceVersion == second.metadata.resourceVersion
    with pytest.raises(ConflictError):
        ctx.update(stale)
    del second.metadata.resourceVersion
    with pytest.raises(InvalidError) as caught:
        ctx.update(second)
    assert caught.value.causes[0].field == "metadata.resourceVersion"


def test_status_is_written_through_subresource_only() -> None:
    ctx = Cluster(foo()).context
    obj = ctx.get(Foo, KEY)
    obj.status = {"phase": "ready"}
    obj = ctx.update(obj)
    assert "status" not in obj
    obj.status = {"phase": "ready"}
    obj.spec.size = 9
    obj = ctx.update_status(obj)
    assert (obj.status.phase, obj.spec.size, obj.metadata.generation) == ("ready", 0, 1)
    ctx = Cluster(kinds.ConfigMap.new("a", "ns")).context
    with pytest.raises(BadRequestError, match="has no status subresource"):
        ctx.update_status(ctx.get(kinds.ConfigMap, KEY))


def test_status_without_subresource_is_ordinary_field() -> None:
    ctx = Cluster().without_status_subresource(Foo).context
    obj = ctx.create(foo(status={"phase": "a"}))
    obj.status.phase = "b"
    assert ctx.update(obj).status.phase == "b"


def test_object_with_finalizers_exists_until_they_are_removed() -> None:
    ctx = Cluster().context
    obj = foo()
    obj.metadata.finalizers = ["e.dev/f"]
    ctx.delete(ctx.create(obj))
    obj = ctx.get(Foo, KEY)
    assert obj.metadata.deletionTimestamp and obj.metadata.generation == 2
    obj.metadata.finalizers.append("e.dev/late")
    with pytest.raises(InvalidError):
        ctx.update(obj)
    obj.metadata.finalizers = []
    ctx.update(obj)
    assert ctx.get_or_none(Foo, KEY) is None


def test_delete_keeps_new_object_of_same_name() -> None:
    ctx = Cluster().context
    first = ctx.create(foo())
    ctx.delete(Foo, KEY)
    ctx.create(foo())
    with pytest.raises(ConflictError):
        ctx.delete(first)


def test_patches_change_named_fields() -> None:
    ctx = Cluster(kinds.ConfigMap.new("a", "ns")).context
    ctx.patch(kinds.ConfigMap, KEY, {"data": {"a": "1", "b": "2"}})
    changed = ctx.patch(kinds.ConfigMap, KEY, [{"op": "remove", "path": "/data/a"}])
    assert changed.data == {"b": "2"}
    with pytest.raises(ConflictError):
        ctx.patch(kinds.ConfigMap, KEY, {"metadata": {"resourceVersion": "1000"}})
    for wrong in ({"op": "test", "path": "/data/b", "value": "3"}, {"op": "remove", "path": "/data/none"}):
        with pytest.raises(InvalidError):
            ctx.patch(kinds.ConfigMap, KEY, [wrong])
    operations = [
        {"op": "add", "path": "/metadata/labels", "value": {"x/y": "z"}},
        {"op": "copy", "from": "/metadata/labels/x~1y", "path": "/data/c"},
        {"op": "move", "from": "/data/b", "path": "/data/d"},
        {"op": "replace", "path": "/data/c", "value": "w"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["e.dev/b"]},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "e.dev/a"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "e.dev/c"},
    ]
    changed = ctx.patch(kinds.ConfigMap, KEY, operations)
    assert changed.data == {"c": "w", "d": "2"}
    assert changed.metadata.finalizers == ["e.dev/a", "e.dev/b", "e.dev/c"]


def test_apply_owns_fields_and_conflicts() -> None:
    ctx = Cluster(kinds.ConfigMap.new("a", "ns")).context
    assert ctx.apply(kinds.ConfigMap.new("a", "ns", data={"a": "1"})).data == {"a": "1"}
    other = kinds.ConfigMap.new("a", "ns", data={"a": "2"})
    with pytest.raises(ConflictError) as caught:
        ctx.apply(other, field_manager="other")
    assert [cause.field for cause in caught.value.causes] == [".data.a"]
    assert ctx.apply(other, field_manager="other", force=True).data == {"a": "2"}


def test_write_options_reach_api_server() -> None:
    cluster = Cluster()
    ctx = cluster.context
    named = ctx.create(Object(apiVersion="v1", kind="ConfigMap", metadata={"generateName": "a-", "namespace": "ns"}))
    assert named.metadata.name.startswith("a-")
    assert cluster.writes() == [f"create ConfigMap ns/{named.metadata.name}"]
    unknown = kinds.ConfigMap.new("b", "ns", unknown=1)
    with pytest.raises(BadRequestError, match='unknown field "unknown"'):
        ctx.create(unknown, strict=True)
    assert "unknown" not in ctx.create(unknown)
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    cluster.add(kinds.Deployment.new("a", "ns", spec={"selector": {"matchLabels": labels}, "template": template}))
    scale = ctx.patch(kinds.Deployment, KEY, {"spec": {"replicas": 3}}, subresource="scale")
    assert (scale.kind, ctx.get(kinds.Deployment, KEY).spec.replicas) == ("Scale", 3)
    ctx.delete(kinds.Deployment, KEY, propagation="Foreground")
    assert ctx.get(kinds.Deployment, KEY).metadata.finalizers == ["foregroundDeletion"]


def test_raw_requests_reach_api_server() -> None:
    ctx = Cluster(kinds.ConfigMap.new("a", "ns", data={"a": "1"})).context
    assert ctx.raw("GET", "/api/v1/namespaces/ns/configmaps/a").json().data.a == "1"
    missing = ctx.raw("GET", "/api/v1/namespaces/ns/configmaps/b")
    assert (missing.status, missing.json().reason) == (404, "NotFound")


def test_invalid_object_is_refused_with_its_causes() -> None:
    cluster = Cluster()
    with pytest.raises(InvalidError) as caught:
        cluster.context.create(kinds.ConfigMap.new("Not_A_Name", "ns"))
    assert caught.value.causes[0].field == "metadata.name"
    with pytest.raises(ServerFault, match="^add Deployment.apps/v1 ns/a: .*spec.selector: Required value"):
        cluster.add(kinds.Deployment.new("a", "ns", spec={}))
    assert cluster.writes() == []


def test_add_keeps_status_and_deletion() -> None:
    cluster = Cluster(foo(status={"phase": "ready"}))
    assert cluster.get(Foo, KEY).status.phase == "ready"
    deleted = foo("b")
    deleted.metadata.update(deletionTimestamp="2030-01-01T00:00:00Z", finalizers=["e.dev/f"])
    assert cluster.add(deleted).metadata.deletionTimestamp
    assert cluster.writes() == [], "these are no writes of a reconciler"
    with pytest.raises(ServerFault, match="^add Foo.e.dev/v1 ns/a: .*already exists"):
        cluster.add(foo())


def test_defined_kind_has_its_plural_and_scope() -> None:
    cluster = Cluster().define(Foo, plural="fooes", namespaced=False)
    cluster.context.create(Foo.new("a", spec={}))
    assert cluster.context.raw("GET", "/apis/e.dev/v1/fooes/a").status == 200


def test_kind_is_defined_with_its_first_object() -> None:
    ctx = Cluster().context
    with pytest.raises(NotFoundError, match="does not serve Foo.e.dev/v1"):
        ctx.get(Foo, KEY)
    assert ctx.create(foo()) == ctx.get(Foo, KEY, live=True)


def test_clusters_are_isolated() -> None:
    first, second = Cluster(foo()), Cluster()
    assert second.get(Foo, KEY) is None
    second.add(foo(spec={"size": 2}))
    assert (first.get(Foo, KEY).spec.size, second.get(Foo, KEY).spec.size) == (0, 2)


def test_lists_select_by_every_option_and_paginate() -> None:
    cluster = Cluster()
    owner = cluster.add(foo("owner"))
    for name in "abcde":
        labels = {"vowel": str(name in "ae").lower()}
        made = kinds.ConfigMap.new(name, "ns", labels=labels, data={"next": "x" if name < "c" else "y"})
        if name == "d":
            set_controller_reference(owner, made)
        cluster.add(made)
    plugin = Plugin()
    plugin.controller(kinds.ConfigMap, pass_object=False)(lambda ctx: None)
    plugin.index("next", kinds.ConfigMap, ".data.next")
    plugin.index("vowel", kinds.ConfigMap, label="vowel")
    plugin.index(".metadata.controller", kinds.ConfigMap, controller=Foo)
    cluster.reconcile(plugin, KEY)

    def names(**options: object) -> str:
        return "".join(item.metadata.name for item in cluster.context.list(kinds.ConfigMap, **options))

    assert names() == names(page_size=2) == "abcde"
    assert names(namespace="other") == ""
    assert names(labels="vowel in (true)") == names(labels={"vowel": "true"}) == "ae"
    assert names(fields={"metadata.name": "b"}) == "b"
    assert (
        names(owner=owner) == names(owner=owner.metadata.uid) == names(index=(".metadata.controller", "owner")) == "d"
    )
    assert names(index=("next", "x")) == "ab"
    assert names(index=("vowel", "true")) == "ae"
    page = cluster.context.list_page(kinds.ConfigMap, limit=2, projection=[".data"])
    assert len(page.items) == 2 and page.continue_token
    assert "labels" not in page.items[0].metadata and page.items[0].data.next == "x"
    for wrong in (
        {"index": ("none", "x")},
        {"index": ("next", "x"), "live": True},
        {"labels": "a in b"},
        {"fields": "spec.a=1"},
    ):
        with pytest.raises(BadRequestError):
            names(**wrong)


def test_events_and_log_lines_are_recorded() -> None:
    import logging

    plugin = Plugin()

    @plugin.controller(kinds.ConfigMap)
    def look(ctx: Context, obj: Object) -> None:
        logging.getLogger("eyes").debug("looked at %s", obj.metadata.name, extra={"retries": ctx.request.retries})
        ctx.event(obj, "Looked", "at it", type="Warning")

    cluster = Cluster(kinds.ConfigMap.new("a", "ns"))
    cluster.reconcile(plugin, KEY, retries=2)
    assert cluster.logs() == [("debug", "looked at a", {"retries": "2", "logger": "eyes"})]
    assert [(event.type, event.reason) for event in cluster.events()] == [("Warning", "Looked")]
    assert (cluster.logs(), cluster.events()) == ([], [])


def test_secret_string_data_becomes_data() -> None:
    secret = Cluster().context.create(kinds.Secret.new("a", "ns", stringData={"password": "root"}))
    assert secret.data.password == "cm9vdA==" and "stringData" not in secret


def test_dry_run_stores_nothing() -> None:
    cluster = Cluster()
    cluster.context.create(foo(), dry_run=True)
    assert cluster.get(Foo, KEY) is None
    assert cluster.writes() == []


def test_fail_next_fails_next_call_of_verb_once() -> None:
    cluster = Cluster(foo())
    cluster.fail_next("get", UnavailableError("down"))
    assert cluster.get(Foo, KEY), "the test's own reads do not fail"
    with pytest.raises(UnavailableError):
        cluster.context.get(Foo, KEY)
    assert cluster.context.get(Foo, KEY)


def test_raw_response_can_be_set() -> None:
    cluster = Cluster()
    cluster.set_raw_response("GET", "/version", 200, {"gitVersion": "v1.36.2"})
    answer = cluster.context.raw("get", "/version", query={"a b": "c&d"})
    assert (answer.status, answer.json().gitVersion) == (200, "v1.36.2")


def test_warnings_are_taken_once_and_belong_to_a_reconcile() -> None:
    cluster = Cluster()
    ctx = cluster.context
    warning = 'unknown field "wrong"'
    ctx.create(kinds.ConfigMap.new("a", "ns", wrong={}))
    ctx.create(kinds.ConfigMap.new("b", "ns", wrong={}))
    assert ctx.take_warnings() == [warning, warning]
    assert ctx.take_warnings() == []

    ctx.create(kinds.ConfigMap.new("c", "ns", wrong={}))
    plugin = Plugin()
    seen = []

    @plugin.controller(kinds.ConfigMap, name="c")
    def reconcile(ctx: Context, config_map: Object) -> None:
        seen.append(ctx.take_warnings())
        ctx.create(kinds.ConfigMap.new("d", "ns", wrong={}))
        seen.append(ctx.take_warnings())

    cluster.reconcile(plugin, ("ns", "c"))
    assert seen == [[], [warning]]
