/**
 * app-service: each AppService has a Deployment and a Service of its name. The annotation `spec` has the spec that they
 * were made from. If it differs from the current spec, the children's specs are replaced.
 */
import {
  type Context,
  controller,
  definePlugin,
  isBeingDeleted,
  isControlledBy,
  keyOf,
  keyText,
  semanticDeepEqual,
  type Stored,
  TerminalError,
} from "@operetta/sdk";
import { Deployment, Service } from "@operetta/sdk/kinds";

import { AppService, newDeployment, newService } from "./app-service.ts";

/** The annotation with the spec that the children were made from, as JSON. */
const ANNOTATION = "spec";

export default definePlugin({
  controllers: [
    controller({
      name: "app-service",
      for: AppService,
      owns: [Deployment, Service],
      workers: 2,
      ownNamespace: true,
      reconcile(ctx, app) {
        // Its children are garbage collected.
        if (isBeingDeleted(app)) {
          return;
        }
        const changed = !semanticDeepEqual(keptSpec(app), app.spec);
        const deployment = bringDeployment(ctx, app, changed);
        bringService(ctx, app, changed);
        const current = changed ? keepSpec(ctx, app) : app;

        const availableReplicas = deployment.status?.availableReplicas ?? 0;
        if (current.status?.availableReplicas !== availableReplicas) {
          ctx.updateStatus({ ...current, status: { availableReplicas } });
        }
      },
    }),
  ],
});

/** Returns the spec that the children were made from, or undefined. */
function keptSpec(app: Stored<AppService>): unknown {
  const text = app.metadata.annotations?.[ANNOTATION];
  if (text === undefined) {
    return undefined;
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    const name = keyText(keyOf(app));
    throw new TerminalError(`AppService ${name}: the annotation "${ANNOTATION}" is not JSON; remove it`, { cause: error });
  }
}

function keepSpec(ctx: Context, app: Stored<AppService>): Stored<AppService> {
  const annotations = { ...app.metadata.annotations, [ANNOTATION]: JSON.stringify(app.spec) };
  return ctx.update({ ...app, metadata: { ...app.metadata, annotations } });
}

function bringDeployment(ctx: Context, app: Stored<AppService>, changed: boolean): Stored<Deployment> {
  const wanted = newDeployment(app);
  const found = ctx.tryGet(Deployment, keyOf(app));
  if (!found) {
    console.info("creating the Deployment", { name: app.metadata.name, replicas: app.spec.replicas });
    return ctx.create(Deployment, wanted);
  }
  mustBeOurs(app, found);
  return changed ? ctx.update({ ...found, spec: wanted.spec }) : found;
}

function bringService(ctx: Context, app: Stored<AppService>, changed: boolean): void {
  const wanted = newService(app);
  const found = ctx.tryGet(Service, keyOf(app));
  if (!found) {
    console.info("creating the Service", { name: app.metadata.name });
    ctx.create(Service, wanted);
    return;
  }
  mustBeOurs(app, found);
  if (changed) {
    // The API server assigned the address, which cannot change.
    const { clusterIP, clusterIPs } = found.spec ?? {};
    ctx.update({ ...found, spec: { ...wanted.spec, ...(clusterIP && { clusterIP }), ...(clusterIPs && { clusterIPs }) } });
  }
}

function mustBeOurs(app: Stored<AppService>, child: Stored<Deployment | Service>): void {
  if (!isControlledBy(child, app)) {
    const name = keyText(keyOf(app));
    throw new Error(`AppService ${name}: a ${child.kind} of this name exists that it does not control`);
  }
}
