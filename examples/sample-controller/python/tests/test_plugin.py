"""Tests of the sample-controller with the SDK's test kit."""

import json

import pytest
from operetta import Object, TerminalError, UnavailableError, kinds, owner_reference
from operetta.testing import Cluster

from plugin import Foo, plugin

KEY = ("ns", "example-foo")
SYNCED = ("Normal", "Synced", "Foo synced successfully")


def foo(**spec: object) -> Object:
    return Foo.new("example-foo", "ns", spec={"deploymentName": "example-foo", "replicas": 2} | spec)


def synced(*objects: Object) -> Cluster:
    cluster = Cluster(*objects)
    sync(cluster)
    return cluster


def sync(cluster: Cluster) -> None:
    assert cluster.reconcile(plugin, KEY) is None
    assert events(cluster) == [SYNCED]


def events(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [(event.type, event.reason, event.message) for event in cluster.events()]


def test_foo_gets_deployment_and_second_sync_writes_nothing() -> None:
    cluster = synced(foo())
    assert cluster.writes() == ["create Deployment ns/example-foo", "update_status Foo ns/example-foo"]
    deployment = cluster.get(kinds.Deployment, KEY)
    labels = {"app": "nginx", "controller": "example-foo"}
    assert deployment.metadata.ownerReferences == [owner_reference(cluster.get(Foo, KEY))]
    assert deployment.spec.selector.matchLabels == deployment.spec.template.metadata.labels == labels
    (container,) = deployment.spec.template.spec.containers
    assert (container.name, container.image) == ("nginx", "nginx:latest")
    assert deployment.spec.replicas == 2
    sync(cluster)
    assert cluster.writes() == []


def test_deleted_foo_is_done() -> None:
    cluster = Cluster()
    assert cluster.reconcile(plugin, KEY) is None
    assert (cluster.writes(), cluster.events()) == ([], [])


@pytest.mark.parametrize("name", ["", None])
def test_empty_deployment_name_is_not_retried(name: str | None) -> None:
    nameless = foo(deploymentName=name)
    if name is None:
        del nameless.spec.deploymentName
    # The schema of the CRD refuses such a Foo: this kind has none.
    cluster = Cluster().define(Foo)
    cluster.add(nameless)
    with pytest.raises(TerminalError, match="^ns/example-foo: deployment name must be specified$"):
        cluster.reconcile(plugin, KEY)
    assert cluster.writes() == []


def test_deployment_of_another_owner_is_kept_with_warning() -> None:
    labels = {"app": "taken"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "taken", "image": "nginx"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    cluster = Cluster(foo(), kinds.Deployment.new("example-foo", "ns", spec=spec))
    message = 'Resource "example-foo" already exists and is not managed by Foo'
    with pytest.raises(RuntimeError, match=f"^{message}$"):
        cluster.reconcile(plugin, KEY)
    assert events(cluster) == [("Warning", "ErrResourceExists", message)]
    assert cluster.writes() == []


def test_changed_replicas_are_restored_and_other_fields_kept() -> None:
    cluster = synced(foo())
    cluster.context.patch(kinds.Deployment, KEY, {"spec": {"replicas": 5, "paused": True}})
    sync(cluster)
    deployment = cluster.get(kinds.Deployment, KEY)
    assert (deployment.spec.replicas, deployment.spec.paused) == (2, True)


def test_foo_without_replicas_keeps_deployment_replicas() -> None:
    unsized = foo()
    del unsized.spec.replicas
    cluster = synced(unsized)
    cluster.context.patch(kinds.Deployment, KEY, {"spec": {"replicas": 7}})
    sync(cluster)
    assert cluster.get(kinds.Deployment, KEY).spec.replicas == 7


def test_status_follows_deployment() -> None:
    cluster = synced(foo())
    deployment = cluster.get(kinds.Deployment, KEY)
    deployment.status = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    cluster.context.update_status(deployment)
    sync(cluster)
    now = cluster.get(Foo, KEY)
    assert (now.status.availableReplicas, now.metadata.generation) == (2, 1)


def test_deleted_deployment_is_created_again() -> None:
    cluster = synced(foo())
    cluster.context.delete(kinds.Deployment, KEY)
    sync(cluster)
    assert cluster.get(kinds.Deployment, KEY)


def test_failing_api_server_is_retried() -> None:
    cluster = Cluster(foo())
    cluster.fail_next("create", UnavailableError("etcd is down"))
    with pytest.raises(UnavailableError):
        cluster.reconcile(plugin, KEY)
    assert cluster.events() == []


def test_deployments_reconcile_their_foo_unless_unchanged() -> None:
    (controller,) = json.loads(plugin.manifest())["controllers"]
    assert (controller["name"], controller["workers"]) == ("foo", 2)
    assert controller["owns"] == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": "Own", "predicates": ["ResourceVersionChanged"]}
    ]
