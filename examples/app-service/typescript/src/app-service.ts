/** The kind `AppService` of batch.example.com, as crd.yaml defines it, and the children of an AppService. */
import { kind, type KubernetesObject, setControllerReference, type Stored } from "@operetta/sdk";
import type { Deployment, Service } from "@operetta/sdk/kinds";

/** An application with a Deployment and a Service of its own name. */
export interface AppService extends KubernetesObject {
  spec: {
    /** The number of replicas of the Deployment. */
    replicas: number;
  };
  status?: {
    /** The Deployment's available replicas. */
    availableReplicas?: number;
  };
}
export const AppService = kind<AppService>("batch.example.com/v1alpha1", "AppService");

const PORT = 80;

/** Returns the Deployment of an AppService, controlled by it. */
export function newDeployment(app: Stored<AppService>): Deployment & { spec: NonNullable<Deployment["spec"]> } {
  const labels = labelsOf(app);
  const container = { name: "app", image: "nginx:latest", ports: [{ containerPort: PORT }] };
  const deployment = {
    metadata: { ...nameOf(app), labels },
    spec: {
      replicas: app.spec.replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [container] } },
    },
  };
  setControllerReference(app, deployment);
  return deployment;
}

/** Returns the Service of an AppService, controlled by it. */
export function newService(app: Stored<AppService>): Service & { spec: NonNullable<Service["spec"]> } {
  const labels = labelsOf(app);
  const service = {
    metadata: { ...nameOf(app), labels },
    spec: { selector: labels, ports: [{ name: "http", port: PORT, targetPort: PORT }] },
  };
  setControllerReference(app, service);
  return service;
}

function nameOf({ metadata: { name, namespace } }: Stored<AppService>) {
  return namespace ? { name, namespace } : { name };
}

function labelsOf({ metadata: { name } }: Stored<AppService>) {
  return { app: name };
}
