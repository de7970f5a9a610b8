/** Tests of the connection to the test server: its start, its errors, and the dump of a failing test. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { ConfigMap } from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import { Connection } from "../src/testing/connection.ts";
import { key } from "./foo.ts";

const sdk = process.cwd();
const root = mkdtempSync(path.join(tmpdir(), "operetta-js-"));
after(() => rmSync(root, { recursive: true }));
mkdirSync(path.join(root, "test"));
mkdirSync(path.join(root, "node_modules", "@operetta"), { recursive: true });
symlinkSync(sdk, path.join(root, "node_modules", "@operetta", "sdk"));

/** Runs a test file as an author does, and returns its exit code and what it prints. */
function run(body: string, variables: Record<string, string> = {}) {
  const imports = [
    'import { test } from "node:test";',
    'import { ConfigMap, Pod, Secret } from "@operetta/sdk/kinds";',
    'import { Cluster } from "@operetta/sdk/testing";',
  ];
  writeFileSync(path.join(root, "test", "it.test.mjs"), [...imports, body].join("\n"));
  const { NODE_TEST_CONTEXT: _inherited, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(sdk, "bin", "operetta-js.mjs"), "test"], {
    cwd: root,
    encoding: "utf8",
    env: { ...env, ...variables },
    timeout: 60_000,
  });
  return { status, output: stdout + stderr };
}

test("a failing test shows the objects and calls of its cluster", () => {
  const { status, output } = run(`
    const of = (name) => ({ metadata: { namespace: "ns", name } });
    test("passes", () => {
      new Cluster().with(ConfigMap, of("passing"));
    });
    test("fails", () => {
      const { context } = new Cluster()
        .with(ConfigMap, of("failing"))
        .with(Secret, { ...of("password"), stringData: { key: "hunter2" } });
      context.tryGet(Pod, { namespace: "ns", name: "sought" });
      throw new Error("no luck");
    });
    test("fails without a cluster", () => {
      throw new Error("no luck");
    });`);
  assert.equal(status, 1, output);
  assert.match(output, /the cluster of the failed test "fails":[^]*failing/);
  assert.match(output, /sought/);
  assert.doesNotMatch(output, /the cluster of the failed test "fails without/);
  assert.match(output, /password/);
  assert.doesNotMatch(output, /passing|hunter2|aHVudGVyMg/);
});

test("a missing program is an error with the fix", () => {
  const body = 'test("a", () => void new Cluster().get(Pod, { name: "a" }));';
  const missing = run(body, { OPERETTA: "/no/such/operetta", OPERETTA_TEST_ADDRESS: "" });
  assert.equal(missing.status, 1);
  assert.match(
    missing.output,
    /the test server \/no\/such\/operetta cannot be started \(ENOENT\): run the tests with `operetta test`, or put `operetta` on PATH, or set OPERETTA to the program/,
  );
  const failing = run(body, { OPERETTA: "false", OPERETTA_TEST_ADDRESS: "" });
  assert.match(failing.output, /`false test --serve` ended with exit code 1/);
});

test("an address without a server is an error", () => {
  const body = 'test("a", () => void new Cluster().get(Pod, { name: "a" }));';
  const { status, output } = run(body, { OPERETTA_TEST_ADDRESS: "token@127.0.0.1:1" });
  assert.equal(status, 1);
  assert.match(output, /the connection to the test server failed: connect ECONNREFUSED 127\.0\.0\.1:1/);
});

test("a wrong use of the protocol fails the test", () => {
  assert.throws(() => new Connection().call("sing", {}), /unknown variant `sing`/);
});

test("text of any characters survives", () => {
  const text = '\u2028 \u2029 \u007f \ud7ff \u{1f3b6} \\ " \n é';
  const cluster = new Cluster().with(ConfigMap, { metadata: key, data: { text } });
  assert.equal(cluster.get(ConfigMap, key)?.data?.["text"], text);
});

test("an object of a megabyte survives", () => {
  const text = "x".repeat(900_000);
  const cluster = new Cluster().with(ConfigMap, { metadata: key, data: { text } });
  assert.equal(cluster.get(ConfigMap, key)?.data?.["text"]?.length, text.length);
});

test("the dump names objects and calls", () => {
  const cluster = new Cluster().with(ConfigMap, { metadata: key });
  cluster.context.deleteKey(ConfigMap, key);
  cluster.with(ConfigMap, { metadata: { ...key, name: "other" } });
  assert.match(cluster.dump(), /other[^]*delete/);
});
