"""cloud-manager as an Operetta plugin: each CloudManager gets a front end, an identity service and a database.

They start one after the other. Children that the spec no longer names are deleted. A step that is not ready ends the
reconcile with a requeue; the child's next event or the rate limiter reconciles the CloudManager again.
"""

import base64
import logging
from typing import Any, Optional

from operetta import Context, Kind, Object, Plugin, Requeue, kinds, requeue, set_controller_reference

CloudManager = Kind("cloudmanagercontroller.huayun.com/v1", "CloudManager")
READY = "ready"
# The index of children by the name of their controlling CloudManager.
OWNER = ".metadata.controller"

log = logging.getLogger(__name__)
plugin = Plugin()
plugin.index(OWNER, kinds.Deployment, controller=CloudManager)
plugin.index(OWNER, kinds.StatefulSet, controller=CloudManager)


@plugin.controller(
    CloudManager,
    name="cloud-manager",
    owns=[kinds.Deployment, kinds.StatefulSet, kinds.Service],
    own_namespace=True,
    workers=2,
)
def reconcile(ctx: Context, cloud: Object) -> Optional[Requeue]:
    """Brings one CloudManager towards its spec, up to the first step that is not ready."""
    if cloud.get_nested("metadata", "deletionTimestamp"):
        return None  # its children are garbage collected
    delete_unnamed(ctx, cloud)
    if not is_ready(front(ctx, cloud)):
        return not_ready(cloud, "front")
    if not is_ready(identity(ctx, cloud)):
        return not_ready(cloud, "identity")
    if not is_ready(database(ctx, cloud, password(ctx, cloud))):
        return not_ready(cloud, "db")
    if cloud.get_nested("status", "phase") != READY:
        cloud.ensure("status").phase = READY
        ctx.update_status(cloud)
        ctx.event(cloud, "Updated", f"Update cm.status.phase: {READY}", action="Update")
    return None


def delete_unnamed(ctx: Context, cloud: Object) -> None:
    """Deletes this CloudManager's Deployments and StatefulSets that its spec no longer names."""
    wanted = {
        kinds.Deployment: {cloud.spec.front.deployment.name, cloud.spec.identity.deployment.name},
        kinds.StatefulSet: {cloud.spec.db.statefulSet.name},
    }
    for kind, names in wanted.items():
        for child in ctx.list(kind, cloud.metadata.namespace, index=(OWNER, cloud.metadata.name)):
            name = child.metadata.name
            if name in names or child.get_nested("metadata", "deletionTimestamp"):
                continue
            ctx.delete(child)
            ctx.event(cloud, "Deleted", f'Deleted {kind.kind.lower()} "{name}"', action="Delete")


def front(ctx: Context, cloud: Object) -> Object:
    """Creates or updates the front end's Deployment."""
    wanted = cloud.spec.front.deployment
    return deployment(ctx, cloud, wanted.name, "front", {"image": wanted.image})


def identity(ctx: Context, cloud: Object) -> Object:
    """Creates or updates the identity service's Deployment."""
    wanted = cloud.spec.identity.deployment
    container = {"image": wanted.image, "command": ["/bin/sh", "-c", "sleep 60m"]}
    return deployment(ctx, cloud, wanted.name, "identity", container)


def deployment(ctx: Context, cloud: Object, name: str, app: str, container: dict[str, Any]) -> Object:
    """Creates or updates a Deployment of one container."""
    operation = ctx.create_or_update(kinds.Deployment.new(name, cloud.metadata.namespace))
    with operation as child:
        set_controller_reference(cloud, child)
        set_template(child, cloud, app, container)
    log.debug("deployment %s: %s", name, operation.result)
    return child


def password(ctx: Context, cloud: Object) -> str:
    """Creates or updates the Secret with the database's root password, and returns its name."""
    name = f"{cloud.spec.db.statefulSet.name}auth"
    with ctx.create_or_update(kinds.Secret.new(name, cloud.metadata.namespace)) as secret:
        set_controller_reference(cloud, secret)
        secret.ensure("data").update(username=encoded("root"), password=encoded(cloud.spec.db.rootPass))
    return name


def encoded(text: str) -> str:
    """Encodes a value of a Secret's data."""
    return base64.b64encode(text.encode()).decode()


def database(ctx: Context, cloud: Object, secret: str) -> Object:
    """Creates or updates the database's StatefulSet."""
    wanted = cloud.spec.db.statefulSet
    reference = {"secretKeyRef": {"name": secret, "key": "password"}}
    container = {"image": wanted.image, "env": [{"name": "MARIADB_ROOT_PASSWORD", "valueFrom": reference}]}
    with ctx.create_or_update(kinds.StatefulSet.new(wanted.name, cloud.metadata.namespace)) as child:
        set_controller_reference(cloud, child)
        set_template(child, cloud, "db", container)
        if not child.spec.get("volumeClaimTemplates"):
            # The API server rejects updates of them.
            child.spec.volumeClaimTemplates = [claim(wanted.storage)]
    return child


def claim(storage: Object) -> dict[str, Any]:
    """Returns the template of the database's volume claim."""
    spec = {
        "storageClassName": storage["class"],
        "accessModes": storage.accessModes,
        "resources": {"requests": {"storage": storage.size}},
    }
    return {"metadata": {"name": "datadir"}, "spec": spec}


def set_template(child: Object, cloud: Object, app: str, wanted: dict[str, Any]) -> None:
    """Sets the labels, the selector and the container `APP-container`, and keeps every other field."""
    labels = {"app": app, "controller": cloud.metadata.name}
    child.ensure("metadata", "labels").update(labels)
    if not child.get_nested("spec", "selector"):
        child.ensure("spec").selector = {"matchLabels": labels}
    child.ensure("spec", "template", "metadata", "labels").update(labels)
    pod = child.ensure("spec", "template", "spec")
    name = f"{app}-container"
    others = [container for container in pod.get("containers") or () if container["name"] != name]
    mine = next(
        (container for container in pod.get("containers") or () if container["name"] == name), Object(name=name)
    )
    mine.update(wanted)
    pod.containers = [mine, *others]


def is_ready(child: Object) -> bool:
    """Reports whether more than half of the replicas are ready."""
    replicas = child.get_nested("spec", "replicas", default=1)
    return child.get_nested("status", "readyReplicas", default=0) >= replicas // 2 + 1


def not_ready(cloud: Object, step: str) -> Requeue:
    """Returns the result while a step is not ready."""
    log.info("%s is not ready yet", step, extra={"cloudmanager": cloud.metadata.name})
    return requeue()
