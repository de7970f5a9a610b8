/** Tests of the app-service with the SDK's test kit. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { done, ownerReference, TerminalError } from "@operetta/sdk";
import { Deployment, Service } from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import { AppService } from "../src/app-service.ts";
import plugin from "../src/plugin.ts";

const key = { namespace: "default", name: "web" };

function cluster(): Cluster {
  return new Cluster().with(AppService, { metadata: { ...key }, spec: { replicas: 2 } });
}

function reconcile(cluster: Cluster) {
  return cluster.reconcile(plugin, "app-service", key);
}

test("a new AppService gets a Deployment and a Service", () => {
  const api = cluster();
  assert.deepEqual(reconcile(api), done());
  const app = api.get(AppService, key);
  assert(app);
  const children = [api.get(Deployment, key), api.get(Service, key)];
  for (const child of children) {
    assert.deepEqual(child?.metadata.ownerReferences, [ownerReference(app)]);
  }
  assert.equal(api.get(Deployment, key)?.spec?.replicas, 2);
  assert.deepEqual(JSON.parse(app.metadata.annotations?.["spec"] ?? ""), { replicas: 2 });
  assert.equal(app.status?.availableReplicas, 0);
});

test("a second reconcile writes nothing", () => {
  const api = cluster();
  reconcile(api);
  api.writes();
  reconcile(api);
  assert.deepEqual(api.writes(), []);
});

test("a changed spec updates the children and keeps the Service's address", () => {
  const api = cluster();
  reconcile(api);
  const service = api.context.get(Service, key);
  api.context.update({ ...service, spec: { ...service.spec, clusterIP: "10.0.0.7" } });
  api.context.patch(AppService, key, { merge: { spec: { replicas: 5 } } });
  api.writes();
  reconcile(api);
  assert.equal(api.get(Deployment, key)?.spec?.replicas, 5);
  assert.equal(api.get(Service, key)?.spec?.clusterIP, "10.0.0.7");
  assert.deepEqual(JSON.parse(api.get(AppService, key)?.metadata.annotations?.["spec"] ?? ""), { replicas: 5 });
  assert.deepEqual(api.writes(), ["update Deployment default/web", "update Service default/web", "update AppService default/web"]);
});

test("the status follows the Deployment", () => {
  const api = cluster();
  reconcile(api);
  const deployment = api.context.get(Deployment, key);
  api.context.updateStatus({ ...deployment, status: { replicas: 2, readyReplicas: 2, availableReplicas: 2 } });
  reconcile(api);
  assert.equal(api.get(AppService, key)?.status?.availableReplicas, 2);
});

test("deleted children are created again", () => {
  for (const child of [Deployment, Service]) {
    const api = cluster();
    reconcile(api);
    api.context.deleteKey(child, key);
    api.writes();
    reconcile(api);
    assert.deepEqual(api.writes(), [`create ${child.kind} default/web`]);
  }
});

test("a malformed annotation is a terminal error that names it", () => {
  const api = new Cluster().with(AppService, {
    metadata: { ...key, annotations: { spec: "{replicas" } },
    spec: { replicas: 1 },
  });
  assert.throws(
    () => reconcile(api),
    (error) => error instanceof TerminalError && /default\/web.*annotation "spec"/.test(error.message),
  );
  assert.deepEqual(api.writes(), []);
});

test("a child of another owner is not changed", () => {
  const api = cluster().with(Service, { metadata: { ...key }, spec: { ports: [{ port: 80 }] } });
  assert.throws(() => reconcile(api), /a Service of this name exists that it does not control/);
});

test("a deleted AppService is done", () => {
  const api = new Cluster().with(AppService, {
    metadata: { ...key, deletionTimestamp: "2030-01-01T00:00:00Z", finalizers: ["example.com/wait"] },
    spec: { replicas: 1 },
  });
  assert.deepEqual(reconcile(api), done());
  assert.deepEqual(new Cluster().reconcile(plugin, "app-service", key), done());
  assert.deepEqual(api.writes(), []);
});
