import assert from "node:assert/strict";
import { test } from "node:test";

import {
  addFinalizer,
  ApiError,
  type ApiErrorKind,
  type Context,
  controller,
  definePlugin,
  type Index,
  isApiError,
  isConflict,
  isInvalid,
  isNotFound,
  type ListOptions,
  type ObjectKey,
  setControllerReference,
} from "@operetta/sdk";
import { ConfigMap, Secret } from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import { Foo, foo, key } from "./foo.ts";

const failsWith = (kind: ApiErrorKind) => (error: unknown) => isApiError(error, kind);

test("create sets system fields and drops the status", () => {
  const { context } = new Cluster();
  const made = context.create(Foo, { ...foo(), status: { phase: "mine" } });
  assert.equal(made.metadata.generation, 1);
  assert.equal(made.status, undefined);
  assert(made.metadata.uid && made.metadata.resourceVersion && made.metadata.creationTimestamp);
  assert.throws(() => context.create(Foo, foo()), failsWith("already-exists"));
});

test("a stale update conflicts, and an unchanged one keeps its version", () => {
  const { context } = new Cluster().with(Foo, foo());
  const first = context.get(Foo, key);
  const second = context.update({ ...first, spec: { size: 3 } });
  assert.equal(second.metadata.generation, 2);
  assert.equal(context.update(second).metadata.resourceVersion, second.metadata.resourceVersion);
  assert.throws(() => context.update(first), isConflict);
  assert.throws(() => context.update({ ...foo(), apiVersion: "e.dev/v1", kind: "Foo" }), isInvalid);
});

test("only the status subresource writes the status", () => {
  const { context } = new Cluster().with(Foo, foo({ size: 0 }));
  const read = context.get(Foo, key);
  const updated = context.update({ ...read, status: { phase: "ready" } });
  assert.equal(updated.status, undefined);
  const written = context.updateStatus({ ...updated, spec: { size: 9 }, status: { phase: "ready" } });
  assert.deepEqual([written.status?.phase, written.spec.size, written.metadata.generation], ["ready", 0, 1]);
  const map = new Cluster().with(ConfigMap, { metadata: key }).context;
  assert.throws(() => map.updateStatus(map.get(ConfigMap, key)), isNotFound);
});

test("a deleted object stays until its finalizers are removed", () => {
  const { context } = new Cluster();
  const draft = foo();
  addFinalizer(draft, "e.dev/f");
  context.delete(context.create(Foo, draft));
  const dying = context.get(Foo, key);
  assert(dying.metadata.deletionTimestamp);
  const late = { ...dying, metadata: { ...dying.metadata, finalizers: ["e.dev/f", "e.dev/late"] } };
  assert.throws(() => context.update(late), isInvalid);
  context.update({ ...dying, metadata: { ...dying.metadata, finalizers: [] } });
  assert.equal(context.tryGet(Foo, key), undefined);
});

test("delete spares a new object of the same name", () => {
  const { context } = new Cluster();
  const first = context.create(Foo, foo());
  context.deleteKey(Foo, key);
  context.create(Foo, foo());
  assert.throws(() => context.delete(first), isConflict);
});

test("merge and JSON patches change the named fields", () => {
  const { context } = new Cluster().with(ConfigMap, { metadata: key });
  context.patch(ConfigMap, key, { merge: { data: { a: "1", b: "2" } } });
  const json = [
    { op: "remove", path: "/data/a" },
    { op: "add", path: "/data/c~1d", value: "3" },
  ] as const;
  assert.deepEqual(context.patch(ConfigMap, key, { json }).data, { b: "2", "c/d": "3" });
  assert.throws(() => context.patch(ConfigMap, key, { merge: { metadata: { resourceVersion: "1" } } }), isConflict);
  const wrong = [{ op: "test", path: "/data/b", value: "3" }] as const;
  assert.throws(() => context.patch(ConfigMap, key, { json: wrong }), isInvalid);
});

test("the kit rejects unsupported calls by name", () => {
  const { context } = new Cluster().with(Foo, foo()).with(ConfigMap, { metadata: key });
  const calls = [
    () => context.patch(ConfigMap, key, { apply: {} }),
    () => context.patch(ConfigMap, key, { merge: {} }, { subresource: "scale" }),
    () => context.create(ConfigMap, { metadata: key }, { strict: true }),
    () => context.create(ConfigMap, { metadata: { generateName: "a-" } }),
    () => context.deleteKey(ConfigMap, key, { propagation: "orphan" }),
    () => context.create(Foo, { metadata: { name: "b" }, spec: { size: null as never } }),
  ];
  for (const call of calls) {
    assert.throws(call, /not supported by the test kit/);
  }
  assert.equal(context.raw({ method: "GET", path: "/api/v1" }).status, 501);
});

test("lists filter by selectors, owner and index, and return pages", () => {
  const cluster = new Cluster().with(Foo, { metadata: { ...key, name: "owner" }, spec: {} });
  const owner = cluster.context.get(Foo, { ...key, name: "owner" });
  for (const name of ["a", "b", "c", "d", "e"]) {
    const labels = { vowel: String("ae".includes(name)) };
    const map: ConfigMap = { metadata: { ...key, name, labels }, data: { next: name < "c" ? "x" : "y" } };
    if (name === "d") {
      setControllerReference(owner, map);
    }
    cluster.with(ConfigMap, map);
  }
  const indexes = [
    { name: "next", kind: ConfigMap, path: ".data.next" },
    { name: "vowel", kind: ConfigMap, label: "vowel" },
    { name: "foo", kind: ConfigMap, controller: Foo },
  ];
  cluster.reconcile(pluginOf({ indexes }), "c", key);
  const names = (options?: ListOptions) =>
    cluster.context.list(ConfigMap, options).map((map) => map.metadata.name).join("");
  assert.equal(names(), "abcde");
  assert.equal(names({ limit: 2 }), "abcde");
  assert.equal(names({ namespace: "other" }), "");
  assert.equal(names({ labels: "vowel in (true)" }), "ae");
  assert.equal(names({ labels: { vowel: "false" } }), "bcd");
  assert.equal(names({ labels: "vowel notin (true, maybe),!other" }), "bcd");
  assert.equal(names({ fields: "metadata.name=b" }), "b");
  assert.equal(names({ owner }), "d");
  assert.equal(names({ index: { name: "next", value: "x" } }), "ab");
  assert.equal(names({ index: { name: "vowel", value: "true" } }), "ae");
  assert.equal(names({ index: { name: "foo", value: "owner" } }), "d");
  const page = cluster.context.listPage(ConfigMap, { limit: 2, projection: [".data"] });
  assert.deepEqual([page.items.length, page.items[0]?.metadata.labels, page.items[0]?.data], [2, undefined, { next: "x" }]);
  assert(page.continueToken);
  for (const wrong of [
    { index: { name: "none", value: "x" } },
    { index: { name: "next", value: "x" }, live: true },
    { labels: "a in b" },
    { fields: "spec.a=1" },
  ]) {
    assert.throws(() => names(wrong), failsWith("bad-request"), JSON.stringify(wrong));
  }
});

test("the kit records Events and log lines", () => {
  const cluster = new Cluster();
  cluster.reconcile(
    pluginOf({
      run(ctx) {
        console.warn("looked at %s", keyName(ctx.request.key), { retries: ctx.request.retries, big: 2n ** 60n });
        ctx.event({ ...foo(), apiVersion: "e.dev/v1", kind: "Foo" }, "Warning", "Looked", "at it");
      },
    }),
    "c",
    key,
    { retries: 4 },
  );
  const fields = [["retries", "4"], ["big", "1152921504606846976"]];
  assert.deepEqual(cluster.logs(), [{ level: "warn", message: "looked at a", fields }]);
  assert.deepEqual(cluster.events().map(({ type, reason, note }) => [type, reason, note]), [["Warning", "Looked", "at it"]]);
  assert.deepEqual([cluster.logs(), cluster.events()], [[], []]);
});

test("a Secret's stringData becomes data", () => {
  const { context } = new Cluster();
  const secret = context.create(Secret, { metadata: key, stringData: { password: "żółw" } });
  assert.deepEqual([secret.data, secret.stringData], [{ password: "xbzDs8WCdw==" }, undefined]);
});

test("a dry run stores nothing", () => {
  const cluster = new Cluster();
  cluster.context.create(Foo, foo(), { dryRun: true });
  assert.equal(cluster.get(Foo, key), undefined);
  assert.deepEqual(cluster.writes(), []);
});

test("a planned fault fails the next call of its verb once", () => {
  const cluster = new Cluster().with(Foo, foo());
  cluster.failNext("get", new ApiError("unavailable", "down"));
  assert(cluster.get(Foo, key), "the test's own look is not meant");
  assert.throws(() => cluster.context.get(Foo, key), failsWith("unavailable"));
  assert(cluster.context.get(Foo, key));
});

test("a 64-bit integer survives a round trip", () => {
  const { context } = new Cluster().with(Foo, foo({ size: 9007199254740993n }));
  const read = context.get(Foo, key);
  assert.equal(read.spec.size, 9007199254740993n);
  assert.equal(context.update({ ...read, spec: { ...read.spec, names: ["x"] } }).spec.size, 9007199254740993n);
});

const keyName = ({ name }: ObjectKey) => name;

function pluginOf({ run = () => {}, indexes = [] }: { run?: (ctx: Context) => void; indexes?: Index[] }) {
  return definePlugin({ controllers: [controller({ name: "c", for: Foo, reconcileKey: run })], indexes });
}
