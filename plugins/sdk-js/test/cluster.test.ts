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
  type ListOptions,
  type ObjectKey,
  setControllerReference,
} from "@operetta/sdk";
import { ConfigMap, Deployment, Secret } from "@operetta/sdk/kinds";
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
  assert.throws(() => map.updateStatus(map.get(ConfigMap, key)), /has no status subresource/);
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
    { op: "add", path: "/metadata/labels", value: {} },
    { op: "add", path: "/metadata/labels/c~1d", value: "3" },
  ] as const;
  const patched = context.patch(ConfigMap, key, { json });
  assert.deepEqual([patched.data, patched.metadata.labels], [{ b: "2" }, { "c/d": "3" }]);
  assert.throws(() => context.patch(ConfigMap, key, { merge: { metadata: { resourceVersion: "1" } } }), isConflict);
  const wrong = [{ op: "test", path: "/data/b", value: "3" }] as const;
  assert.throws(() => context.patch(ConfigMap, key, { json: wrong }), isInvalid);
});

test("server-side apply owns fields", () => {
  const { context } = new Cluster().with(ConfigMap, { metadata: key });
  const apply = (value: string) => ({ apply: { metadata: key, data: { a: value } } });
  assert.deepEqual(context.patch(ConfigMap, key, apply("1")).data, { a: "1" });
  assert.throws(
    () => context.patch(ConfigMap, key, apply("2"), { fieldManager: "other" }),
    (error) => isConflict(error) && error.causes[0]?.field === ".data.a",
  );
  const forced = context.patch(ConfigMap, key, apply("2"), { fieldManager: "other", force: true });
  assert.deepEqual(forced.data, { a: "2" });
});

test("options of writes reach the API server", () => {
  const cluster = new Cluster();
  const { context } = cluster;
  const { name } = context.create(ConfigMap, { metadata: { namespace: "ns", generateName: "a-" } }).metadata;
  assert.match(name, /^a-./);
  assert.deepEqual(cluster.writes(), [`create ConfigMap ns/${name}`]);
  const unknown = { metadata: key, unknown: 1 };
  assert.throws(() => context.create(ConfigMap, unknown, { strict: true }), /unknown field "unknown"/);
  assert.equal("unknown" in context.create(ConfigMap, unknown), false);
  const labels = { app: "a" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "a", image: "a" }] } };
  cluster.with(Deployment, { metadata: key, spec: { selector: { matchLabels: labels }, template } });
  const scale = context.patch(Deployment, key, { merge: { spec: { replicas: 3 } } }, { subresource: "scale" });
  assert.deepEqual([scale.kind, context.get(Deployment, key).spec?.replicas], ["Scale", 3]);
  context.deleteKey(Deployment, key, { propagation: "foreground" });
  assert.deepEqual(context.get(Deployment, key).metadata.finalizers, ["foregroundDeletion"]);
});

test("raw requests reach the API server", () => {
  const { context } = new Cluster().with(ConfigMap, { metadata: key, data: { a: "1" } });
  const path = "/api/v1/namespaces/ns/configmaps/a";
  assert.equal(context.raw({ method: "GET", path }).json<ConfigMap>().data?.["a"], "1");
  assert.equal(context.raw({ method: "GET", path: `${path}b` }).status, 404);
});

test("an invalid object is rejected with its causes", () => {
  const cluster = new Cluster();
  assert.throws(
    () => cluster.context.create(ConfigMap, { metadata: { ...key, name: "Not_A_Name" } }),
    (error) => isInvalid(error) && error.causes[0]?.field === "metadata.name",
  );
  const empty = { metadata: key, spec: {} as never };
  assert.throws(() => cluster.with(Deployment, empty), /^Error: add Deployment.apps\/v1 ns\/a: .*spec.selector: Required value/);
  assert.throws(() => cluster.with(ConfigMap, {}), TypeError);
  assert.deepEqual(cluster.writes(), []);
});

test("with keeps the status and a deletion", () => {
  const dying = { ...key, name: "b", deletionTimestamp: "2030-01-01T00:00:00Z", finalizers: ["e.dev/f"] };
  const cluster = new Cluster()
    .with(Foo, { ...foo(), status: { phase: "ready" } })
    .with(Foo, { metadata: dying, spec: {} });
  assert.equal(cluster.get(Foo, key)?.status?.phase, "ready");
  assert(cluster.get(Foo, { ...key, name: "b" })?.metadata.deletionTimestamp);
  assert.deepEqual(cluster.writes(), [], "these are no writes of a reconciler");
  assert.throws(() => cluster.with(Foo, foo()), /^Error: add Foo.e.dev\/v1 ns\/a: .*already exists/);
});

test("a defined kind has its plural, scope and status", () => {
  const { context } = new Cluster().define(Foo, { plural: "fooes", namespaced: false, status: false });
  const made = context.create(Foo, { metadata: { name: "a" }, spec: {}, status: { phase: "a" } });
  assert.equal(context.raw({ method: "GET", path: "/apis/e.dev/v1/fooes/a" }).status, 200);
  assert.equal(context.update({ ...made, status: { phase: "b" } }).status?.phase, "b");
  const namespaced = new Cluster().withoutStatusSubresource(Foo).context;
  assert.equal(namespaced.create(Foo, { ...foo(), status: { phase: "a" } }).status?.phase, "a");
});

test("a kind is defined with its first object", () => {
  const { context } = new Cluster();
  assert.equal(context.tryGet(Foo, key), undefined);
  assert.deepEqual(context.create(Foo, foo()), context.get(Foo, key, { live: true }));
});

test("clusters are isolated", () => {
  const [first, second] = [new Cluster().with(Foo, foo({ size: 1 })), new Cluster()];
  assert.equal(second.get(Foo, key), undefined);
  second.with(Foo, foo({ size: 2 }));
  assert.deepEqual([first.get(Foo, key)?.spec.size, second.get(Foo, key)?.spec.size], [1, 2]);
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

test("warnings are taken once and belong to a reconcile", () => {
  const cluster = new Cluster();
  const { context } = cluster;
  const misspelt = (name: string) => ({ metadata: { namespace: "ns", name }, wrong: {} });
  context.create(ConfigMap, misspelt("a"));
  context.create(ConfigMap, misspelt("b"));
  assert.deepEqual(context.takeWarnings(), ['unknown field "wrong"', 'unknown field "wrong"']);
  assert.deepEqual(context.takeWarnings(), []);

  context.create(ConfigMap, misspelt("c"));
  const reconcile = (ctx: Context) => {
    assert.deepEqual(ctx.takeWarnings(), []);
    ctx.create(ConfigMap, misspelt("d"));
    assert.deepEqual(ctx.takeWarnings(), ['unknown field "wrong"']);
    return undefined;
  };
  const plugin = definePlugin({ controllers: [controller({ name: "c", for: Foo, reconcileKey: reconcile })] });
  cluster.reconcile(plugin, "c", key);
});
