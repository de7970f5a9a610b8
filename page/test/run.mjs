// run.mjs [FOLDER [PREFIX]]: bundles the tests (FILE.test.ts) of test/FOLDER, those whose names begin with PREFIX, and runs them with
// Node.js.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? "model";
// Below node_modules, so that the tests find the packages.
const out = `${here}../node_modules/.tests/${folder}`;
const chosen = process.argv[3] ?? "";
const tests = readdirSync(`${here}${folder}`).filter((file) => file.endsWith(".test.ts") && file.startsWith(chosen));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: tests.map((file) => `${here}${folder}/${file}`),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  logLevel: "warning",
});
const files = tests.map((file) => `${out}/${file.replace(/\.ts$/, ".mjs")}`);
// Walks share a host, which they also disturb: one file after another.
const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-reporter=spec", ...(folder === "walk" ? ["--test-concurrency=1"] : []), ...files], { stdio: "inherit" });
process.exit(ran.status ?? 1);
