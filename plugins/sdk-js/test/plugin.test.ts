import assert from "node:assert/strict";
import { test } from "node:test";

import {
  controller,
  definePlugin,
  done,
  finalizer,
  type Index,
  type Predicate,
  requeue,
  requeueAfter,
  type Result,
  TerminalError,
} from "@operetta/sdk";
import { ConfigMap, Pod, Secret } from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import { Foo, foo, key } from "./foo.ts";

const nothing = () => {};

test("a map function gets the old and the new state", () => {
  const keys = (pod: Pod) => (pod.spec?.nodeName ? [{ name: pod.spec.nodeName }] : []);
  const watches = [{ source: Pod, map: { type: "custom", keys } as const }];
  const plugin = definePlugin({ controllers: [controller({ name: "a", for: Foo, watches, reconcile: nothing })] });
  const [watch] = JSON.parse(plugin.manifest).controllers[0].watches;
  assert.deepEqual(watch, { source: { apiVersion: "v1", kind: "Pod" }, map: { type: "Custom" } });
  const on = (nodeName: string) => JSON.stringify({ spec: { nodeName } });
  const map = (object: string, old?: string) => plugin.map({ controller: "a", kind: Pod, object, old });
  assert.equal(plugin.maps, true);
  assert.deepEqual(map(on("a")), [{ name: "a" }]);
  assert.deepEqual(map(on("b"), on("a")), [{ name: "b" }, { name: "a" }]);
  assert.deepEqual(map(on("a"), on("a")), [{ name: "a" }]);
  assert.throws(() => map("{"), /the Pod to map is not JSON/);
  assert.throws(() => plugin.map({ controller: "b", kind: Pod, object: "{}" }), /no controller "b"/);
});

test("the manifest lists the controller's watches", () => {
  const predicates: Predicate[] = ["GenerationChanged"];
  const plugin = definePlugin({
    indexes: [
      { name: "node", kind: Pod, path: ".spec.nodeName" },
      { name: "app", kind: Pod, label: "app.kubernetes.io/name" },
      { name: "owner", kind: ConfigMap, controller: Foo },
    ],
    controllers: [
      controller({
        name: "foo",
        for: { kind: Foo, labels: "a=b", predicates },
        owns: [ConfigMap, { kind: Secret, fields: "type=Opaque", prune: [".data", ".metadata.annotations"] }],
        watches: [
          { source: Pod, map: { type: "field-path", path: ".spec.nodeName", namespacePath: ".metadata.namespace" } },
          { source: Secret, map: { type: "same-name" } },
          { source: Secret, map: { type: "owner", all: true } },
        ],
        finalizers: ["e.dev/cleanup"],
        workers: 4,
        resyncSeconds: 60,
        rateLimiter: { qps: 1_000 },
        ownNamespace: true,
        eventFilters: ["GenerationChanged", "LabelsChanged"],
        reconcile: nothing,
      }),
    ],
  });
  const namespaces = "Own";
  const filters = ["GenerationChanged", "LabelsChanged"];
  const secret = { apiVersion: "v1", kind: "Secret", namespaces, predicates: filters };
  assert.deepEqual(JSON.parse(plugin.manifest), {
    apiVersion: "operetta.dev/v1alpha1",
    kind: "Manifest",
    controllers: [
      {
        name: "foo",
        for: { apiVersion: "e.dev/v1", kind: "Foo", namespaces, labelSelector: "a=b", predicates: filters },
        owns: [
          { apiVersion: "v1", kind: "ConfigMap", namespaces, predicates: filters },
          { ...secret, fieldSelector: "type=Opaque", prune: [".data", ".metadata.annotations"] },
        ],
        watches: [
          {
            source: { apiVersion: "v1", kind: "Pod", namespaces, predicates: filters },
            map: { type: "FieldPath", path: ".spec.nodeName", namespacePath: ".metadata.namespace" },
          },
          { source: secret, map: { type: "SameName" } },
          { source: secret, map: { type: "Owner", allOwners: true } },
        ],
        finalizers: ["e.dev/cleanup"],
        workers: 4,
        resyncSeconds: 60,
        rateLimiter: { baseDelayMs: 5, maxDelayMs: 1_000_000, qps: 1_000, burst: 100 },
      },
    ],
    indexes: [
      { name: "node", apiVersion: "v1", kind: "Pod", path: ".spec.nodeName" },
      { name: "app", apiVersion: "v1", kind: "Pod", label: "app.kubernetes.io/name" },
      { name: "owner", apiVersion: "v1", kind: "ConfigMap", controller: { apiVersion: "e.dev/v1", kind: "Foo" } },
    ],
  });
});

test("an invalid definition throws an error that names the cause", () => {
  const named = (name: string, more: object = {}) => controller({ name, for: Foo, reconcile: nothing, ...more });
  const one = (more: object) => () => definePlugin({ controllers: [named("a", more)] });
  const index: Index = { name: "i", kind: Foo, path: "spec" };
  const wrong: [() => unknown, RegExp][] = [
    [() => definePlugin({ controllers: [] }), /at least one controller/],
    [() => definePlugin({ controllers: [named("a"), named("a")] }), /duplicate controller name "a"/],
    [() => definePlugin({ controllers: [named("A_b")] }), /"A_b" is not a DNS label/],
    [one({ workers: 65 }), /controller "a": workers is 65; it must be a whole number from 1 to 64/],
    [one({ owns: [{}] }), /controller "a": owns\[0\] is neither a kind nor a source/],
    [one({ eventFilters: ["Changed"] }), /unknown predicate "Changed"/],
    [one({ eventFilters: [{ changed: "$.a", matches: "$.b" }] }), /unknown predicate \{"changed"/],
    [one({ eventFilters: [{ any: [{ not: "Changed" }] }] }), /unknown predicate "Changed"/],
    [one({ watches: [{ source: Foo, map: { type: "field-path", path: "x" } }] }), /"x" must begin with a dot/],
    [() => definePlugin({ controllers: [named("a")], indexes: [index] }), /index "i": the path "spec" must begin/],
    [one({ own: [ConfigMap] }), /controller "a" has an unknown property "own"; did you mean "owns"\?; the properties are name, /],
    [one({ owns: [{ kind: ConfigMap, label: "a=b" }] }), /controller "a": owns\[0\] .* "label"; did you mean "labels"/],
    [one({ owns: [{ kind: ConfigMap, prune: ["data"] }] }), /controller "a": owns\[0\].prune: the path "data" must begin/],
    [one({ watches: [{ sources: Foo, map: { type: "same-name" } }] }), /controller "a": watches\[0\] .* "sources"/],
    [one({ watches: [{ source: Foo, map: { type: "owner", path: "." } }] }), /watches\[0\].map .* "path"; the properties/],
    [one({ rateLimiter: { QPS: 1 } }), /controller "a": rateLimiter has an unknown property "QPS"/],
    [() => definePlugin({ controllers: [named("a")], index: [] } as never), /the plugin .* "index"; did you mean "indexes"/],
    [() => named("a", { reconcile: undefined }), /neither `reconcile` nor `reconcileKey`/],
  ];
  for (const [define, message] of wrong) {
    assert.throws(define, message);
  }
});

function reconcilesTo(reconcile: () => Result | void) {
  const plugin = definePlugin({ controllers: [controller({ name: "c", for: Foo, reconcile })] });
  return () => new Cluster().with(Foo, foo()).reconcile(plugin, "c", key);
}

test("reconcile returns the reconciler's result", () => {
  assert.deepEqual(reconcilesTo(nothing)(), done());
  assert.deepEqual(reconcilesTo(requeue)(), requeue());
  assert.deepEqual(reconcilesTo(() => requeueAfter(0.5))(), { type: "requeue-after", milliseconds: 1 });
  assert.deepEqual(requeueAfter(Infinity), { type: "requeue-after", milliseconds: 2 ** 32 - 1 });
  assert.throws(() => requeueAfter(-1), RangeError);
  assert.throws(() => requeueAfter(Number.NaN), RangeError);
  assert.throws(reconcilesTo((async () => done()) as never), /returned a promise: .* write it without `async`/);
  assert.throws(reconcilesTo(() => ({}) as never), TerminalError);
});

test("the key of a deleted object is reconciled", () => {
  const seen: string[] = [];
  const plugin = definePlugin({
    controllers: [
      controller({ name: "silent", for: Foo, reconcile: () => void seen.push("silent") }),
      controller({ name: "gone", for: Foo, reconcile: nothing, whenGone: ({ request }) => void seen.push(request.key.name) }),
      controller({ name: "key", for: Foo, reconcileKey: ({ request }) => void seen.push(request.controller) }),
    ],
  });
  for (const name of ["silent", "gone", "key"]) {
    assert.deepEqual(new Cluster().reconcile(plugin, name, key), done());
  }
  assert.deepEqual(seen, ["a", "key"]);
  assert.throws(() => new Cluster().reconcile(plugin, "none", key), /no controller "none"/);
});

test("createOrUpdate writes changes only", () => {
  const cluster = new Cluster();
  const bringTo = (size: number) =>
    cluster.context.createOrUpdate(Foo, foo(), (foo) => {
      foo.spec.size = size;
      foo.spec.names = [];
      foo.metadata.labels ??= {};
    }).result;
  assert.deepEqual([bringTo(1), bringTo(1), bringTo(2)], ["created", "unchanged", "updated"]);
  assert.deepEqual(cluster.writes(), ["create Foo ns/a", "update Foo ns/a"]);
  const rename = () =>
    cluster.context.createOrUpdate(Foo, foo(), (foo) => {
      foo.metadata.name = "b";
    });
  assert.throws(rename, (error) => error instanceof TerminalError && /e.dev\/v1 Foo ns\/a became ns\/b/.test(error.message));
});

test("finalizer applies, cleans up, then removes the finalizer", () => {
  let applied = 0;
  const plugin = definePlugin({
    controllers: [
      controller({
        name: "foo",
        for: Foo,
        reconcile: (ctx, foo) =>
          finalizer(ctx, foo, "e.dev/f", {
            apply: () => void (applied += 1),
            cleanup: ({ spec }) => (spec.size === 0 ? done() : requeue()),
          }),
      }),
    ],
  });
  const cluster = new Cluster().with(Foo, foo({ size: 1 }));
  const run = () => cluster.reconcile(plugin, "foo", key);
  run();
  run();
  assert.deepEqual([applied, cluster.writes()], [2, ["patch Foo ns/a"]]);
  cluster.context.delete(cluster.context.get(Foo, key));
  assert.deepEqual(run(), requeue());
  cluster.context.patch(Foo, key, { merge: { spec: { size: 0 } } });
  assert.deepEqual(run(), done());
  assert.equal(cluster.get(Foo, key), undefined);
});

test("a config that is not an object is a terminal error", () => {
  assert.deepEqual(new Cluster().withConfig({ n: 1 }).context.config<{ n: number }>().n, 1);
  assert.throws(() => new Cluster().withConfig([]).context.config(), TerminalError);
});
