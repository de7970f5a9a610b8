// run.mjs [FOLDER]: bundles the tests (FILE.test.ts) below test/, or below a folder of it, and runs them with Node.js.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? "model";
// Below node_modules, so that the tests find the packages.
const out = `${here}../node_modules/.tests/${folder}`;
const tests = readdirSync(`${here}${folder}`).filter((file) => file.endsWith(".test.ts"));

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
const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-reporter=spec", ...files], { stdio: "inherit" });
process.exit(ran.status ?? 1);
