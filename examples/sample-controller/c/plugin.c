/* Kubernetes' sample-controller as an Operetta plugin: each Foo gets a Deployment of the name and size in its spec, and a
 * status with the number of available replicas. */
#include "operetta.h"

static const operetta_kind FOO = {"samplecontroller.k8s.io/v1alpha1", "Foo"};

/* Fills in the new Deployment of a Foo, and makes the Foo its owner. */
static bool describe(const operetta_value *foo, operetta_value *deployment, operetta_error **error) {
    operetta_value *labels = operetta_new_object();
    operetta_set_string(labels, "app", "nginx");
    operetta_set_string(labels, "controller", operetta_name(foo));
    operetta_set(deployment, "spec.selector.matchLabels", labels);
    operetta_set(deployment, "spec.template.metadata.labels", labels);
    operetta_set_string(deployment, "spec.template.spec.containers[0].name", "nginx");
    operetta_set_string(deployment, "spec.template.spec.containers[0].image", "nginx:latest");
    return operetta_set_controller_reference(foo, deployment, error);
}

static operetta_result reconcile(const operetta_request *request, operetta_value *foo) {
    const char *name = operetta_string(foo, "spec.deploymentName", "");
    if (*name == '\0') {
        return operetta_terminal("%s/%s: deployment name must be specified", request->namespace_, request->name);
    }

    operetta_error *error;
    operetta_value *deployment = operetta_get_or_new(OPERETTA_DEPLOYMENT, request->namespace_, name, &error);
    if (deployment == NULL || (operetta_is_new(deployment) && !describe(foo, deployment, &error))) {
        return operetta_fail(error);
    }
    if (!operetta_is_controlled_by(deployment, foo)) {
        const char *message = operetta_format("Resource \"%s\" already exists and is not managed by Foo", name);
        operetta_event(foo, OPERETTA_WARNING, "ErrResourceExists", "Sync", "%s", message);
        return operetta_retry("%s", message);
    }
    operetta_value *replicas = operetta_at(foo, "spec.replicas");
    if (replicas != NULL) {
        operetta_set(deployment, "spec.replicas", replicas);
    }
    deployment = operetta_create_or_update(deployment, NULL, &error);
    if (deployment == NULL) {
        return operetta_fail(error);
    }

    operetta_value *status = operetta_new_object();
    operetta_set_int(status, "availableReplicas", operetta_int(deployment, "status.availableReplicas", 0));
    if (!operetta_write_status(foo, status, &error)) {
        return operetta_fail(error);
    }
    operetta_event(foo, OPERETTA_NORMAL, "Synced", "Sync", "Foo synced successfully");
    return operetta_done();
}

/* Watches the Foos of the Plugin's own namespace and the Deployments that they control. The periodic resync of a
 * Deployment, with an unchanged resourceVersion, does not trigger a reconcile. */
void operetta_plugin(void) {
    operetta_controller *foos = operetta_add_object_controller("foo", FOO, reconcile);
    operetta_source *deployments = operetta_owns(foos, OPERETTA_DEPLOYMENT);
    operetta_own_namespace(operetta_for(foos));
    operetta_own_namespace(deployments);
    operetta_add_predicate(deployments, OPERETTA_RESOURCE_VERSION_CHANGED);
    operetta_workers(foos, 2);
}
