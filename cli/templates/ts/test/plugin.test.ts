/** The reconciler against the SDK's test kit: an API server with the CRD of this project. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { done, isControlledBy } from "@operetta/sdk";
import * as kinds from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import plugin from "../src/plugin.ts";
import * as types from "../src/types.ts";

const key = { namespace: "default", name: "example" };

/** An API server with one {{kind}}, reconciled once. */
function cluster(): Cluster {
  const cluster = new Cluster().with(types.{{kind}}, { metadata: { ...key }, spec: { message: "Hello" } });
  assert.deepEqual(cluster.reconcile(plugin, "{{singular}}", key), done());
  return cluster;
}

test("writes the message into a ConfigMap and restores it", () => {
  const api = cluster();
  const object = api.get(types.{{kind}}, key);
  const map = api.get(kinds.ConfigMap, key);
  assert(object && map);
  assert.equal(map.data?.["message"], "Hello");
  assert(isControlledBy(map, object));
  assert.equal(object.status?.configMap, "example");

  api.context.update({ ...map, data: {} });
  api.reconcile(plugin, "{{singular}}", key);
  assert.equal(api.get(kinds.ConfigMap, key)?.data?.["message"], "Hello");
});

test("a second reconcile writes nothing", () => {
  const api = cluster();
  api.writes();
  api.reconcile(plugin, "{{singular}}", key);
  assert.deepEqual(api.writes(), []);
});
