"""Kubernetes' sample-controller as an Operetta plugin.

Each Foo has a Deployment of the name and size in its spec, and its status shows the available replicas.
"""

from operetta import Context, Kind, Object, Plugin, Source, TerminalError, kinds, owners

Foo = Kind("samplecontroller.k8s.io/v1alpha1", "Foo")
# Ignores periodic resyncs of Deployments, whose resourceVersion is unchanged.
deployments = Source(kinds.Deployment, predicates=["ResourceVersionChanged"])
plugin = Plugin()


@plugin.controller(Foo, owns=[deployments], own_namespace=True, workers=2)
def reconcile(ctx: Context, foo: Object) -> None:
    """Brings the Deployment and the status of one Foo to the desired state."""
    if not foo.spec.get("deploymentName"):
        raise TerminalError(f"{ctx.request.key}: deployment name must be specified")

    with ctx.create_or_update(new_deployment(foo)) as deployment:
        if not owners.is_controlled_by(deployment, foo):
            message = f'Resource "{deployment.metadata.name}" already exists and is not managed by Foo'
            ctx.event(foo, "ErrResourceExists", message, type="Warning")
            raise RuntimeError(message)
        if "replicas" in foo.spec:
            deployment.spec.replicas = foo.spec.replicas

    available = deployment.get_nested("status", "availableReplicas", default=0)
    if foo.get_nested("status", "availableReplicas") != available:
        foo.ensure("status").availableReplicas = available
        ctx.update_status(foo)
    ctx.event(foo, "Synced", "Foo synced successfully")


def new_deployment(foo: Object) -> Object:
    """Returns the Deployment of a Foo, controlled by it."""
    labels = {"app": "nginx", "controller": foo.metadata.name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    deployment = kinds.Deployment.new(foo.spec.deploymentName, foo.metadata.namespace, spec=spec)
    owners.set_controller_reference(foo, deployment)
    return deployment
