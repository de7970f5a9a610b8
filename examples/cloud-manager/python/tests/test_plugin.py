"""Tests of the cloud-manager with the SDK's test kit."""

import json
from typing import Any

import pytest
from operetta import Kind, Object, Requeue, UnavailableError, kinds, owner_reference
from operetta.testing import Cluster

from plugin import CloudManager, plugin

KEY = ("ns", "one")


def cloud(**spec: Any) -> Object:
    storage = {"class": "fast", "accessModes": ["ReadWriteOnce"], "size": "1Gi"}
    whole = {
        "front": {"deployment": {"name": "front", "image": "nginx"}},
        "identity": {"deployment": {"name": "identity", "image": "busybox"}},
        "db": {"statefulSet": {"name": "db", "image": "mariadb", "storage": storage}, "rootPass": "s3cret"},
    }
    return CloudManager.new("one", "ns", spec=whole | spec)


def make_ready(cluster: Cluster, kind: Kind, name: str, ready: int = 1) -> None:
    child = cluster.get(kind, name, "ns")
    assert child is not None
    child.status = {"replicas": child.spec.replicas, "readyReplicas": ready}
    cluster.context.update_status(child)
    cluster.writes()


def brought_up() -> Cluster:
    cluster = Cluster(cloud())
    assert cluster.reconcile(plugin, KEY) == Requeue()
    make_ready(cluster, kinds.Deployment, "front")
    assert cluster.reconcile(plugin, KEY) == Requeue()
    make_ready(cluster, kinds.Deployment, "identity")
    assert cluster.reconcile(plugin, KEY) == Requeue()
    make_ready(cluster, kinds.StatefulSet, "db")
    assert cluster.reconcile(plugin, KEY) is None
    return cluster


def test_each_step_waits_for_previous_one() -> None:
    cluster = Cluster(cloud())
    steps = []
    for kind, name in [(kinds.Deployment, "front"), (kinds.Deployment, "identity"), (kinds.StatefulSet, "db")]:
        assert cluster.reconcile(plugin, KEY) == Requeue()
        steps.append(cluster.writes())
        assert cluster.reconcile(plugin, KEY) == Requeue()
        assert cluster.writes() == [], "a reconcile that changes nothing writes nothing"
        make_ready(cluster, kind, name)
    assert steps == [
        ["create Deployment ns/front"],
        ["create Deployment ns/identity"],
        ["create Secret ns/dbauth", "create StatefulSet ns/db"],
    ]
    assert cluster.reconcile(plugin, KEY) is None
    assert cluster.writes() == ["update_status CloudManager ns/one"]
    assert [(event.reason, event.message) for event in cluster.events()] == [
        ("Updated", "Update cm.status.phase: ready")
    ]
    assert cluster.reconcile(plugin, KEY) is None
    assert (cluster.writes(), cluster.events()) == ([], [])


def test_children_match_spec() -> None:
    cluster = brought_up()
    owner = owner_reference(cluster.get(CloudManager, KEY))
    front = cluster.get(kinds.Deployment, "front", "ns")
    assert front.metadata.ownerReferences == [owner]
    labels = {"app": "front", "controller": "one"}
    assert front.metadata.labels == front.spec.selector.matchLabels == front.spec.template.metadata.labels == labels
    (container,) = front.spec.template.spec.containers
    assert (container.name, container.image) == ("front-container", "nginx")
    identity = cluster.get(kinds.Deployment, "identity", "ns")
    assert identity.spec.template.spec.containers[0].command == ["/bin/sh", "-c", "sleep 60m"]
    secret = cluster.get(kinds.Secret, "dbauth", "ns")
    assert secret.data == {"username": "cm9vdA==", "password": "czNjcmV0"}
    assert secret.metadata.ownerReferences == [owner]
    db = cluster.get(kinds.StatefulSet, "db", "ns")
    (container,) = db.spec.template.spec.containers
    assert container.name == "db-container"
    assert container.env[0].valueFrom.secretKeyRef == {"name": "dbauth", "key": "password"}
    (claim,) = db.spec.volumeClaimTemplates
    assert claim.metadata.name == "datadir"
    assert (claim.spec.storageClassName, claim.spec.accessModes) == ("fast", ["ReadWriteOnce"])
    assert claim.spec.resources.requests == {"storage": "1Gi"}


def test_renamed_child_is_replaced_and_old_one_deleted() -> None:
    cluster = brought_up()
    front = cluster.get(kinds.Deployment, "front", "ns")
    cluster.add(kinds.Deployment.new("other", "ns", spec=front.spec))
    cluster.events()
    renamed = {"spec": {"front": {"deployment": {"name": "renamed"}}}}
    cluster.context.patch(CloudManager, KEY, renamed)
    cluster.writes()
    assert cluster.reconcile(plugin, KEY) == Requeue()
    assert cluster.writes() == ["delete Deployment ns/front", "create Deployment ns/renamed"]
    assert [(event.reason, event.message) for event in cluster.events()] == [("Deleted", 'Deleted deployment "front"')]
    assert cluster.get(kinds.Deployment, "other", "ns"), "it has another owner"


def test_new_image_keeps_fields_of_others() -> None:
    cluster = brought_up()
    context = cluster.context
    front = context.get(kinds.Deployment, "front", "ns")
    front.spec.replicas = 3
    front.spec.template.spec.containers[0].imagePullPolicy = "Never"
    front.spec.template.spec.containers.append({"name": "sidecar", "image": "envoy"})
    context.update(front)
    context.patch(CloudManager, KEY, {"spec": {"front": {"deployment": {"image": "nginx:2"}}}})
    assert cluster.reconcile(plugin, KEY) == Requeue(), "one of three is ready"
    front = cluster.get(kinds.Deployment, "front", "ns")
    assert front.spec.replicas == 3
    own, sidecar = front.spec.template.spec.containers
    assert (own.name, own.image, own.imagePullPolicy) == ("front-container", "nginx:2", "Never")
    assert (sidecar.name, sidecar.image) == ("sidecar", "envoy")


@pytest.mark.parametrize(("replicas", "ready", "proceeds"), [(3, 1, False), (3, 2, True), (4, 2, False), (4, 3, True)])
def test_step_needs_more_than_half_of_replicas(replicas: int, ready: int, proceeds: bool) -> None:
    cluster = Cluster(cloud())
    cluster.reconcile(plugin, KEY)
    cluster.context.patch(kinds.Deployment, ("ns", "front"), {"spec": {"replicas": replicas}})
    make_ready(cluster, kinds.Deployment, "front", ready)
    cluster.reconcile(plugin, KEY)
    assert (cluster.get(kinds.Deployment, "identity", "ns") is not None) is proceeds


def test_deleted_child_is_created_again() -> None:
    cluster = brought_up()
    cluster.context.delete(kinds.StatefulSet, "db", "ns")
    assert cluster.reconcile(plugin, KEY) == Requeue()
    assert cluster.get(kinds.StatefulSet, "db", "ns")


def test_deleted_cloud_is_done() -> None:
    cluster = Cluster()
    assert cluster.reconcile(plugin, KEY) is None
    deleted = cloud()
    deleted.metadata.update(deletionTimestamp="2030-01-01T00:00:00Z", finalizers=["foregroundDeletion"])
    cluster.add(deleted)
    assert cluster.reconcile(plugin, KEY) is None
    assert cluster.writes() == []


def test_failing_api_server_is_retried() -> None:
    cluster = Cluster(cloud())
    cluster.fail_next("create", UnavailableError("etcd is down"))
    with pytest.raises(UnavailableError):
        cluster.reconcile(plugin, KEY)


def test_index_is_on_controlling_owner() -> None:
    controller = {"apiVersion": "cloudmanagercontroller.huayun.com/v1", "kind": "CloudManager"}
    assert json.loads(plugin.manifest())["indexes"] == [
        {"name": ".metadata.controller", "apiVersion": "apps/v1", "kind": kind, "controller": controller}
        for kind in ("Deployment", "StatefulSet")
    ]
