/** Tests of the sample-controller with the SDK's test kit. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, done, ownerReference, TerminalError } from "@operetta/sdk";
import { Deployment } from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import plugin, { Foo } from "../src/plugin.ts";

const key = { namespace: "default", name: "example-foo" };
const synced = "Foo synced successfully";

function cluster(spec: Foo["spec"] = { deploymentName: key.name, replicas: 2 }): Cluster {
  return new Cluster().with(Foo, { metadata: { ...key }, spec });
}

function sync(api: Cluster): void {
  assert.deepEqual(api.reconcile(plugin, "foo", key), done());
}

function deployment(api: Cluster) {
  const found = api.get(Deployment, key);
  assert(found, "there is no Deployment");
  return found;
}

test("creates the Deployment, controlled by the Foo", () => {
  const api = cluster();
  sync(api);
  const { metadata, spec } = deployment(api);
  assert.deepEqual(metadata.ownerReferences, [ownerReference(api.get(Foo, key)!)]);
  assert.equal(spec?.replicas, 2);
  assert.equal(spec?.template.spec?.containers[0]?.image, "nginx:latest");
  assert.deepEqual(spec?.selector.matchLabels, { app: "nginx", controller: "example-foo" });
  assert.deepEqual(api.writes(), ["create Deployment default/example-foo", "updateStatus Foo default/example-foo"]);
  assert.deepEqual(api.events().map(({ reason, note }) => [reason, note]), [["Synced", synced]]);
});

test("a second sync writes nothing and reports Synced", () => {
  const api = cluster();
  sync(api);
  api.writes();
  api.events();
  sync(api);
  assert.deepEqual(api.writes(), []);
  assert.deepEqual(api.events().map(({ reason }) => reason), ["Synced"]);
});

test("ignores a deleted Foo", () => {
  const api = new Cluster();
  sync(api);
  assert.deepEqual(api.writes(), []);
});

test("an empty deployment name is a terminal error", () => {
  const message = "default/example-foo: deployment name must be specified";
  // The schema of the CRD refuses such a Foo: this kind has none.
  const api = new Cluster().define(Foo).with(Foo, { metadata: { ...key }, spec: { deploymentName: "" } });
  assert.throws(
    () => sync(api),
    (error) => error instanceof TerminalError && error.message === message,
  );
});

test("keeps a Deployment of another owner, with a warning", () => {
  const labels = { app: "taken" };
  const containers = [{ name: "taken", image: "nginx" }];
  const spec = { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } };
  const api = cluster().with(Deployment, { metadata: { ...key }, spec });
  const message = 'Resource "example-foo" already exists and is not managed by Foo';
  assert.throws(() => sync(api), (error) => !(error instanceof TerminalError) && (error as Error).message === message);
  assert.deepEqual(
    api.events().map(({ type, reason, note }) => [type, reason, note]),
    [["Warning", "ErrResourceExists", message]],
  );
  assert.deepEqual(api.writes(), []);
});

test("restores the size and keeps other fields", () => {
  const api = cluster();
  sync(api);
  api.context.patch(Deployment, key, { merge: { spec: { replicas: 5, paused: true } } });
  sync(api);
  const { spec } = deployment(api);
  assert.deepEqual([spec?.replicas, spec?.paused], [2, true]);
});

test("keeps the size of the Deployment if the Foo has none", () => {
  const api = cluster({ deploymentName: key.name });
  sync(api);
  api.context.patch(Deployment, key, { merge: { spec: { replicas: 7 } } });
  sync(api);
  assert.equal(deployment(api).spec?.replicas, 7);
});

test("the status follows the Deployment", () => {
  const api = cluster();
  sync(api);
  const status = { replicas: 2, readyReplicas: 2, availableReplicas: 2 };
  api.context.updateStatus({ ...deployment(api), status });
  sync(api);
  assert.equal(api.get(Foo, key)?.status?.availableReplicas, 2);
});

test("creates a deleted Deployment again", () => {
  const api = cluster();
  sync(api);
  api.context.delete(deployment(api));
  sync(api);
  deployment(api);
});

test("a failed API call is retried without an Event", () => {
  const api = cluster();
  api.failNext("create", new ApiError("unavailable", { message: "etcd is down" }));
  assert.throws(() => sync(api), (error) => error instanceof ApiError && error.kind === "unavailable");
  assert.deepEqual(api.events(), []);
});
