import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ApiError,
  canonicalQuantity,
  decodeBase64,
  encodeBase64,
  isControlledBy,
  semanticDeepEqual,
  ownerReference,
  setControllerReference,
} from "@operetta/sdk";
import { ConfigMap } from "@operetta/sdk/kinds";
import { Cluster } from "@operetta/sdk/testing";

import { mayHoldLargeInteger, parse, stringify } from "../src/json.ts";
import { logLine } from "../src/log-line.ts";
import { Foo, foo, key } from "./foo.ts";

test("large integers keep all their digits", () => {
  // The test kit, imported above, brings the codec of Node 20.
  const text = '{"a":9007199254740993,"b":-9223372036854775808,"c":1.5,"d":9007199254740991,"e":"9007199254740993"}';
  const value = parse(text, "it") as Record<string, unknown>;
  assert.deepEqual(value, {
    a: 9007199254740993n,
    b: -9223372036854775808n,
    c: 1.5,
    d: 9007199254740991,
    e: "9007199254740993",
  });
  assert.equal(stringify(value, "it"), text);
});

test("large integers are detected, digits in strings are not", () => {
  const large = "9007199254740993";
  for (const text of [large, `-${large}`, `{"a":${large}}`, `[1,${large}]`, `{"a":"x","b":[{"c":-${large}}]}`]) {
    assert(mayHoldLargeInteger(text), text);
    assert(mayHoldLargeInteger(`{"\\"":"\\\\","in":${text}}`), text);
  }
  assert(!mayHoldLargeInteger(`{"a":"${large}","${large}":123456789012345,"c":[1,2,3,4,5,6,7,8,9,10,11]}`));
});

test("JSON errors name the text or value", () => {
  assert.throws(() => parse("{", "the answer"), /^SyntaxError: the answer is not JSON: /);
  assert.throws(() => stringify(undefined, "the body"), /^TypeError: the body cannot be written as JSON: it is undefined/);
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  assert.throws(() => stringify(cycle, "the body"), /^TypeError: the body cannot be written as JSON: /);
});

test("absent, null and empty values are equal", () => {
  assert(semanticDeepEqual({ a: null, b: [], c: {}, d: { e: 1n } }, { d: { e: 1n, f: undefined } }));
  for (const [a, b] of [[{ a: 0 }, {}], [{ a: "" }, {}], [[1, 2], [2, 1]], [{ a: [1] }, { a: { 0: 1 } }], [1, "1"]]) {
    assert(!semanticDeepEqual(a, b), `${JSON.stringify(a)} ${JSON.stringify(b)}`);
  }
});

test("quantities get apimachinery's canonical form", () => {
  for (const [given, canonical] of [
    ["1024Mi", "1Gi"],
    ["1536Mi", "1536Mi"],
    ["1.5Gi", "1536Mi"],
    ["1023", "1023"],
    ["512Ki", "512Ki"],
    ["0.5Ki", "512"],
    ["1000m", "1"],
    ["1.5", "1500m"],
    ["0.1", "100m"],
    ["12000", "12k"],
    [2000, "2k"],
    ["1e3", "1e3"],
    ["100e2", "10e3"],
    ["-0.5", "-500m"],
    ["0", "0"],
    ["+1", "1"],
    [".5", "500m"],
  ] as const) {
    assert.equal(canonicalQuantity(given), canonical, String(given));
  }
  for (const wrong of ["", "Gi", "1 Gi", "1Ki2", "x", "--1", "1.2.3"]) {
    assert.throws(() => canonicalQuantity(wrong), /is not a quantity/, wrong);
  }
});

test("base64 encodes UTF-8", () => {
  assert.equal(decodeBase64(encodeBase64("żółw 🎭")), "żółw 🎭");
  assert.throws(() => decodeBase64("%"), /not base64/);
  assert.throws(() => decodeBase64("/w=="), /not of UTF-8/);
});

test("an ApiError message names the causes or the status", () => {
  const causes = [{ reason: "FieldValueInvalid", message: "too small", field: "spec.size" }];
  const error = new ApiError("invalid", { message: "Foo is invalid", causes });
  assert.deepEqual([error.message, error.code, error.reason], ["Foo is invalid; spec.size: too small", 422, "Invalid"]);
  assert.equal(new ApiError("other", { code: 507, reason: "Full" }).message, "the API server responded with 507 Full");
});

test("setControllerReference keeps another controlling owner", () => {
  const cluster = new Cluster().with(Foo, foo()).with(Foo, { ...foo(), metadata: { ...key, name: "b" } });
  const [a, b] = cluster.context.list(Foo);
  assert(a && b);
  const child: ConfigMap = { metadata: { ...key, name: "child" } };
  setControllerReference(a, child);
  setControllerReference(a, child);
  assert.deepEqual(child.metadata?.ownerReferences, [ownerReference(a)]);
  assert(isControlledBy(child, a) && !isControlledBy(child, b));
  assert.throws(() => setControllerReference(b, child), /child is already controlled by Foo a/);
  assert.throws(() => setControllerReference(a, { metadata: { name: "x", namespace: "other" } }), /another namespace/);
  assert.throws(() => setControllerReference({ ...a, metadata: { name: "a" } }, child), /has no uid/);
});

test("console arguments become a message and fields", () => {
  const line = (...args: unknown[]) => {
    const { message, fields } = logLine("info", args, () => "STACK");
    return [message, ...fields.map((field) => field.join("="))];
  };
  assert.deepEqual(line("scaled", { from: 1, to: { n: 2 } }), ["scaled", "from=1", 'to={"n":2}']);
  assert.deepEqual(line("%s is %d%%", "it", 3), ["it is 3%"]);
  assert.deepEqual(line("%j", { a: 1 }), ['{"a":1}']);
  assert.deepEqual(line("a", 1, [2], null, undefined), ["a 1 [2] null undefined"]);
  assert.deepEqual(line({ a: 1 }), ['{"a":1}']);
  assert.deepEqual(line("failed:", new TypeError("boom")), ["failed: TypeError: boom", "stack=STACK"]);
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  assert.deepEqual(line("x", [cycle]), ["x [object Array]"]);
});
