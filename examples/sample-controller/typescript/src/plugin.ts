/**
 * Kubernetes' sample-controller as an Operetta plugin: each Foo has a Deployment of the name and size in its spec,
 * and its status shows the available replicas.
 */
import { controller, definePlugin, isControlledBy, kind, type KubernetesObject, setControllerReference, TerminalError } from "@operetta/sdk";
import { Deployment } from "@operetta/sdk/kinds";

/** The kind that crd.yaml defines. */
export interface Foo extends KubernetesObject {
  spec: { deploymentName: string; replicas?: number };
  status?: { availableReplicas?: number };
}
export const Foo = kind<Foo>("samplecontroller.k8s.io/v1alpha1", "Foo");

export default definePlugin({
  controllers: [
    controller({
      name: "foo",
      for: Foo,
      // Ignores periodic resyncs of Deployments, whose resourceVersion is unchanged.
      owns: [{ kind: Deployment, predicates: ["ResourceVersionChanged"] }],
      ownNamespace: true,
      workers: 2,
      reconcile(ctx, foo) {
        const { namespace, name } = foo.metadata;
        const { deploymentName, replicas } = foo.spec;
        if (!deploymentName) {
          throw new TerminalError(`${namespace}/${name}: deployment name must be specified`);
        }

        const metadata = { name: deploymentName, namespace };
        const { object: deployment } = ctx.createOrUpdate(Deployment, { metadata }, (deployment) => {
          if (!deployment.metadata.uid) {
            deployment.spec = newDeploymentSpec(name);
            setControllerReference(foo, deployment);
          } else if (!isControlledBy(deployment, foo)) {
            const message = `Resource "${deploymentName}" already exists and is not managed by Foo`;
            ctx.event(foo, "Warning", "ErrResourceExists", message);
            throw new Error(message);
          }
          if (replicas !== undefined) {
            deployment.spec = { ...deployment.spec!, replicas };
          }
        });

        const availableReplicas = deployment.status?.availableReplicas ?? 0;
        if (foo.status?.availableReplicas !== availableReplicas) {
          ctx.updateStatus({ ...foo, status: { availableReplicas } });
        }
        ctx.event(foo, "Normal", "Synced", "Foo synced successfully");
      },
    }),
  ],
});

/** Returns the spec of a Foo's new Deployment. */
function newDeploymentSpec(foo: string): NonNullable<Deployment["spec"]> {
  const labels = { app: "nginx", controller: foo };
  const containers = [{ name: "nginx", image: "nginx:latest" }];
  return { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } };
}
