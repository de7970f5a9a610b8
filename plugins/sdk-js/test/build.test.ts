/** Tests of the build as an author runs it: the component that it writes, and its errors. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { setSourceLines, stackOf } from "../src/guest/stack.ts";

// @ts-expect-error: plain JavaScript
import { lineTable } from "../bin/lines.mjs";

const sdk = process.cwd();
const root = mkdtempSync(path.join(tmpdir(), "operetta-js-"));
after(() => rmSync(root, { recursive: true }));

let count = 0;

/** What a project has besides its plugin, and the arguments of the build. */
interface Project {
  files?: Record<string, string>;
  /** Packages, and the folders that they are. */
  links?: Record<string, string>;
  args: string[];
}

/** Runs the build on a project with this plugin. */
function build(source: string | undefined, { files = {}, links = {}, args }: Project = { args: [] }) {
  count += 1;
  const dir = path.join(root, String(count));
  mkdirSync(path.join(dir, "src"), { recursive: true });
  mkdirSync(path.join(dir, "node_modules", "@operetta"), { recursive: true });
  symlinkSync(sdk, path.join(dir, "node_modules", "@operetta", "sdk"));
  writeFileSync(path.join(dir, "package.json"), JSON.stringify({ name: "@me/mine", type: "module" }));
  if (source !== undefined) {
    writeFileSync(path.join(dir, "src", "plugin.ts"), source);
  }
  Object.entries(files).forEach(([name, text]) => writeFileSync(path.join(dir, name), text));
  Object.entries(links).forEach(([name, folder]) => symlinkSync(folder, path.join(dir, "node_modules", name)));
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(sdk, "bin", "operetta-js.mjs"), "build", ...args], {
    cwd: dir,
    encoding: "utf8",
  });
  return { dir, status, stdout, stderr };
}

const PLUGIN = `
  import { controller, definePlugin } from "@operetta/sdk";
  import { ConfigMap } from "@operetta/sdk/kinds";
  export default definePlugin({ controllers: [controller({ name: "NAME", for: ConfigMap, reconcile() {} })] });
`;

test("build writes a component named after the package", () => {
  const { dir, status, stdout, stderr } = build(PLUGIN.replace("NAME", "mine"));
  assert.equal(status, 0, stderr);
  assert.match(stdout, /wrote build\/mine.wasm: \d+ KiB in [\d.]+ s/);
  const header = readFileSync(path.join(dir, "build", "mine.wasm")).subarray(0, 8);
  assert.deepEqual([...header], [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0], "the header of a component");
});

test("build errors name the cause and the fix", () => {
  const cases: [source: string | undefined, args: string[], status: number, message: RegExp][] = [
    [undefined, [], 1, /has no src\/plugin.ts, .*--entry names another/],
    ["export default 1;", [], 1, /the plugin's module has no default export that definePlugin\(\) made/],
    [PLUGIN.replace("NAME", "Not_A_Label"), [], 1, /the controller name "Not_A_Label" is not a DNS label/],
    ["throw new Error('at the top');", [], 1, /at the top/],
    ["import fs from 'node:fs'; export default fs;", [], 1, /Could not resolve "node:fs"/],
    ["export default (;", [], 1, /src\/plugin.ts:1:/],
    [undefined, ["--what"], 2, /usage: operetta-js build/],
    [undefined, ["/no/such/folder"], 1, /\/no\/such\/folder has no package.json/],
  ];
  for (const [source, args, expected, message] of cases) {
    const { status, stderr } = build(source, { args });
    assert.match(stderr, message);
    assert.equal(status, expected, stderr);
    assert.doesNotMatch(stderr, /\bat .*node:internal/, "no stack of the build's own");
  }
});

test("build checks types with the project's TypeScript", () => {
  const wrong = PLUGIN.replace("NAME", "mine").replace("reconcile() {}", "reconcile(ctx) { ctx.lgo(); }");
  const config = JSON.stringify({ extends: "@operetta/sdk/tsconfig.json", compilerOptions: { types: [] }, include: ["src"] });
  const files = { "tsconfig.json": config };
  const unchecked = build(wrong, { files, args: [] });
  assert.equal(unchecked.status, 0, unchecked.stderr);
  assert.match(unchecked.stderr, /the types are not checked: npm install --save-dev typescript/);
  const links = { typescript: path.join(sdk, "node_modules", "typescript") };
  const checked = build(wrong, { files, links, args: [] });
  assert.equal(checked.status, 1, checked.stderr);
  assert.match(checked.stderr, /src\/plugin.ts\(4,\d+\): error TS\d+: Property 'lgo' does not exist/);
  const forced = build(wrong, { files, links, args: ["--no-check"] });
  assert.equal(forced.status, 0, forced.stderr);
});

test("stack lines map to source files", () => {
  // Bundle lines 1 to 4: nothing, a.ts:7, a.ts:8, the SDK's b.ts:3.
  const map = { sources: ["src/a.ts", "sdk/src/b.ts"], mappings: ";AAMA;AACA;ACLA" };
  const table: unknown = JSON.parse(lineTable(map, root, mkdirs(path.join(root, "sdk"))));
  assert.deepEqual(table, { files: ["src/a.ts", "@operetta/sdk/src/b.ts"], lines: "-,7:0,,3:1" });
  Object.assign(globalThis, { __operettaLines: table });
  const error = new Error("boom");
  error.stack = ["", "    at sing (componentize-qjs:user.js:3:22)", "    at <anonymous> (componentize-qjs:user.js:4:1)"].join("\n");
  assert.equal(stackOf(error), "at sing (src/a.ts:8)\nat <anonymous> (@operetta/sdk/src/b.ts:3)");
});

test("frames of evaluated source have lines of their own table", () => {
  Object.assign(globalThis, { __operettaLines: { files: ["sdk.ts"], lines: "9:0" } });
  setSourceLines({ files: ["src/plugin.ts"], lines: "-,3:0" });
  const error = new Error("boom");
  error.stack = ["    at sing (<input>:2:13)", "    at run (componentize-qjs:user.js:1:2)", "    at eval (native)"].join("\n");
  assert.equal(stackOf(error), "at sing (src/plugin.ts:3)\nat run (sdk.ts:9)");
});

function mkdirs(folder: string): string {
  mkdirSync(folder, { recursive: true });
  return folder;
}
