/** Tests under `node --test`. They are bundled first, because Node does not run the TypeScript of packages. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import path from "node:path";

import { BuildError } from "./build.mjs";
import { run } from "./bundle.mjs";

const OUT = path.join("build", "test");

/** Defines `require`, which CommonJS packages need. */
const BANNER = 'import { createRequire as __require } from "node:module"; const require = __require(import.meta.url);';

/**
 * Runs the given test files, by default all, and returns node's exit code.
 *
 * @throws BuildError if there are no tests, or they cannot be bundled.
 */
export async function test(files) {
  const entryPoints = files.length > 0 ? files : await testFiles("test");
  const missing = entryPoints.find((file) => !existsSync(file));
  if (missing) {
    throw new BuildError(`there is no test file ${missing}`);
  }
  if (entryPoints.length === 0) {
    throw new BuildError("there is no test: put one into test/NAME.test.ts");
  }
  await rm(OUT, { recursive: true, force: true });
  const outExtension = { ".js": ".mjs" };
  const banner = { js: BANNER };
  const outbase = process.cwd();
  await run({ entryPoints, outdir: OUT, outbase, outExtension, banner, platform: "node", sourcemap: "inline" });
  const bundles = entryPoints.map((file) =>
    path.join(OUT, path.relative(outbase, path.resolve(file)).replace(/\.[^.]+$/, ".mjs")),
  );
  const node = spawn(process.execPath, ["--enable-source-maps", "--test", ...bundles], { stdio: "inherit" });
  return new Promise((resolve) => {
    node.on("exit", (code) => resolve(code ?? 1));
  });
}

async function testFiles(folder) {
  if (!existsSync(folder)) {
    return [];
  }
  const names = await readdir(folder, { recursive: true });
  return names.filter((name) => /\.test\.(ts|js|mjs)$/.test(name)).map((name) => path.join(folder, name)).sort();
}
