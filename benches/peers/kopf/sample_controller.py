"""Kubernetes' sample-controller on kopf, for the comparison in docs/sdks.md.

The native counterpart of examples/sample-controller/python: `kopf run --namespace NS sample_controller.py`.
"""

from typing import Any

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

GROUP, VERSION, PLURAL = "samplecontroller.k8s.io", "v1alpha1", "foos"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Connects to the cluster, and reconciles two Foos at once."""
    config.load_config()
    settings.execution.max_workers = 2


@kopf.on.create(GROUP, VERSION, PLURAL)
@kopf.on.resume(GROUP, VERSION, PLURAL)
@kopf.on.update(GROUP, VERSION, PLURAL, field="spec")
@kopf.on.timer(GROUP, VERSION, PLURAL, interval=30)
def reconcile(body: kopf.Body, namespace: str, patch: kopf.Patch, **_: Any) -> None:
    """Brings the Deployment and the status of one Foo to the desired state."""
    spec = body.spec
    if not spec.get("deploymentName"):
        raise kopf.PermanentError(f"{namespace}/{body.metadata.name}: deployment name must be specified")

    apps = client.AppsV1Api()
    try:
        deployment = apps.read_namespaced_deployment(spec["deploymentName"], namespace)
    except ApiException as error:
        if error.status != 404:
            raise
        deployment = apps.create_namespaced_deployment(namespace, new_deployment(body))
    if not any(owner.controller and owner.uid == body.metadata.uid for owner in deployment.metadata.owner_references or []):
        message = f'Resource "{deployment.metadata.name}" already exists and is not managed by Foo'
        kopf.event(body, type="Warning", reason="ErrResourceExists", message=message)
        raise kopf.TemporaryError(message, delay=5)
    if "replicas" in spec and deployment.spec.replicas != spec["replicas"]:
        change = {"spec": {"replicas": spec["replicas"]}}
        deployment = apps.patch_namespaced_deployment(deployment.metadata.name, namespace, change)

    patch.status["availableReplicas"] = deployment.status.available_replicas or 0
    kopf.event(body, type="Normal", reason="Synced", message="Foo synced successfully")


@kopf.on.event("apps", "v1", "deployments", labels={"controller": kopf.PRESENT})
def deployment_changed(body: kopf.Body, namespace: str, **_: Any) -> None:
    """Reconciles the Foo that controls a Deployment: it puts the Deployment's state into the Foo's status."""
    for owner in body.metadata.get("ownerReferences", []):
        if owner.get("controller") and owner["kind"] == "Foo":
            status = {"status": {"availableReplicas": body.status.get("availableReplicas", 0)}}
            foos = client.CustomObjectsApi()
            foos.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, owner["name"], status)


def new_deployment(foo: kopf.Body) -> dict[str, Any]:
    """Returns the Deployment that a Foo asks for, controlled by it."""
    labels = {"app": "nginx", "controller": foo.metadata.name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}}
    spec = {"replicas": foo.spec.get("replicas"), "selector": {"matchLabels": labels}, "template": pod}
    deployment = {"metadata": {"name": foo.spec["deploymentName"], "labels": labels}, "spec": spec}
    kopf.append_owner_reference(deployment, owner=foo)
    return deployment
