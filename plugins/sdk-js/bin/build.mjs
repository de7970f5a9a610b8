/**
 * The build of a plugin's component. esbuild bundles the project into one module. componentize-qjs embeds the module in
 * the QuickJS engine with the contract's world, runs its top level, and takes a snapshot.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { bundle } from "./bundle.mjs";
import { lineTable } from "./lines.mjs";
import { checkTypes } from "./types.mjs";

/** The folder of this package. */
export const SDK = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** An error that the author can fix. */
export class BuildError extends Error {}

/** The error of a plugin that needs the world with a mapper: NEEDS_MAPPER of src/guest/index.ts. */
const NEEDS_MAPPER = "the plugin needs the world mapping-plugin";

const ENTRIES = ["src/plugin.ts", "src/plugin.js", "src/plugin.mjs", "plugin.ts", "plugin.js"];

/**
 * Builds the project in `dir` and prints one line per step.
 *
 * @throws BuildError if the project cannot be built.
 */
export async function build({ dir, output, entry, size, "no-check": unchecked }) {
  const project = path.resolve(dir);
  const manifest = await readPackage(project);
  const plugin = entryOf(project, entry);
  const file = path.resolve(output ?? path.join(project, "build", `${nameOf(manifest, project)}.wasm`));
  const started = Date.now();

  const types = unchecked ? Promise.resolve() : checkTypes(project);
  const [checked, built] = await Promise.allSettled([types, componentInItsWorld(project, plugin, size)]);
  // A wrong type is usually the cause of the other error.
  const failed = [checked, built].find(({ status }) => status === "rejected");
  if (failed) {
    throw failed.reason;
  }
  const component = built.value;
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, component);
  report(`wrote ${path.relative(process.cwd(), file)}`, started, component.length);
}

/** Returns the component in the world that the plugin needs. */
async function componentInItsWorld(project, plugin, size) {
  try {
    return await componentOf(project, plugin, "plugin", size);
  } catch (error) {
    // A plugin reports that it needs a mapper only when it starts.
    if (!error.message.includes(NEEDS_MAPPER)) {
      throw error;
    }
    return await componentOf(project, plugin, "mapping-plugin", size);
  }
}

/** Returns the component in one of the contract's worlds. */
async function componentOf(project, plugin, world, size) {
  const bundled = Date.now();
  const lines = [
    'import { exportMapper, exportPlugin } from "@operetta/sdk/guest";',
    `import * as module from ${JSON.stringify(`./${path.relative(project, plugin).split(path.sep).join("/")}`)};`,
    `export const reconciler = exportPlugin(module.default, ${JSON.stringify(world)});`,
  ];
  if (world === "mapping-plugin") {
    lines.push("export const mapper = exportMapper(module.default);");
  }
  const { code, map } = await bundle({
    stdin: { contents: lines.join("\n"), resolveDir: project, sourcefile: "operetta-entry.js" },
    absWorkingDir: project,
    platform: "neutral",
    mainFields: ["module", "main"],
    external: ["operetta:*"],
  });
  report(`bundled ${path.relative(project, plugin)}`, bundled, code.length);
  return await componentize(withLines(code, map, project), { world, size });
}

/** Returns a bundle with the table of its source lines, which the guest reads. */
export function withLines(code, map, project) {
  return `${code}\n;globalThis.__operettaLines = ${lineTable(map, project, SDK)};\n`;
}

async function readPackage(project) {
  const file = path.join(project, "package.json");
  if (!existsSync(file)) {
    throw new BuildError(`${project} has no package.json: it is not a plugin project`);
  }
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    throw new BuildError(`${file} is not JSON: ${error.message}`);
  }
}

/**
 * Returns the file that exports the plugin.
 *
 * @throws BuildError if the project has none.
 */
export function entryOf(project, entry) {
  const candidates = entry ? [entry] : ENTRIES;
  const found = candidates.map((name) => path.resolve(project, name)).find((name) => existsSync(name));
  if (!found) {
    throw new BuildError(`${project} has no ${candidates.join(", ")}: it exports the plugin; --entry names another`);
  }
  return found;
}

/** Returns the package's name without its scope. */
function nameOf({ name }, project) {
  return typeof name === "string" && name ? name.replace(/^.*\//, "") : path.basename(project);
}

/**
 * Makes a component of a bundle and the engine.
 *
 * @throws BuildError if the engine is not installed, or the bundle does not start.
 */
export async function componentize(source, { world, size = false, wit = path.join(SDK, "wit") }) {
  let engine;
  try {
    engine = await import("componentize-qjs");
  } catch (error) {
    throw new BuildError(`componentize-qjs does not load (${error.message}); run \`npm install\`, or \`npm install\` in the SDK's folder if it is linked`);
  }
  try {
    // Without `sync` the component needs async WIT functions, which the contract lacks.
    const options = { witPath: wit, world, jsSource: source, sync: true, optSize: size };
    return (await engine.componentize(options)).component;
  } catch (error) {
    throw new BuildError(`the plugin does not start: ${error.message}`);
  }
}

function report(what, since, bytes) {
  console.log(`${what}: ${(bytes / 1024).toFixed(0)} KiB in ${((Date.now() - since) / 1000).toFixed(1)} s`);
}
