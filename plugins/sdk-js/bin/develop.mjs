/**
 * The helper of `operetta dev`: it makes bundles that an interpreter evaluates, so that a save builds no component. For each
 * line on stdin, the number of a request, it writes a line of JSON to stdout:
 *
 *     {"request": "1", "interpreter": "typescript-….wasm", "source": "…"}
 *     {"request": "2", "error": "src/plugin.ts:3:10: ERROR: …"}
 *     {"request": "3", "unsupported": "componentize-qjs does not load …"}
 *
 * The interpreter is a file in the given folder. It depends on the SDK only, so all projects share it. esbuild keeps what it
 * has parsed from one request to the next.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

import { context, formatMessages } from "esbuild";

import { BuildError, componentize, entryOf, SDK, withLines } from "./build.mjs";
import { bundle, bundled, IN_MEMORY, OPTIONS, ownSdk } from "./bundle.mjs";
import { lineTable } from "./lines.mjs";

/** The modules of the SDK that an interpreter has and a bundle leaves out. */
const MODULES = ["@operetta/sdk", "@operetta/sdk/kinds"];

/** Leaves the SDK out of a bundle. */
const withoutSdk = {
  name: "without-sdk",
  setup(build) {
    build.onResolve({ filter: /^@operetta\/sdk/ }, ({ path }) =>
      MODULES.includes(path) ? { path, external: true } : undefined,
    );
  },
};

/** Answers the requests on stdin until it ends. */
export async function develop({ dir, interpreters }) {
  const project = path.resolve(dir);
  const bundler = new Bundler(project);
  const interpreter = ready(path.resolve(interpreters)).then(
    (name) => ({ interpreter: name }),
    (error) => ({ unsupported: error.message }),
  );
  for await (const request of createInterface({ input: process.stdin })) {
    const bundled = bundler.bundle().then(
      (source) => ({ source }),
      (error) => ({ error: error.message }),
    );
    console.log(JSON.stringify({ request, ...(await interpreter), ...(await bundled) }));
  }
  await bundler.end();
}

/** Makes bundles of a project. */
class Bundler {
  #project;
  #entry;
  #context;

  constructor(project) {
    this.#project = project;
  }

  /**
   * Returns the bundle as JSON: the `Bundle` of src/guest/development.ts.
   *
   * @throws BuildError if esbuild reports errors.
   */
  async bundle() {
    const entry = entryOf(this.#project);
    if (entry !== this.#entry) {
      await this.end();
      this.#context = await context({
        ...OPTIONS,
        entryPoints: [entry],
        absWorkingDir: this.#project,
        format: "cjs",
        platform: "neutral",
        mainFields: ["module", "main"],
        plugins: [withoutSdk, ownSdk],
        ...IN_MEMORY,
        logLevel: "silent",
      });
      this.#entry = entry;
    }
    let built;
    try {
      built = await this.#context.rebuild();
    } catch (error) {
      const messages = await formatMessages(error.errors ?? [], { kind: "error" });
      throw new BuildError(messages.join("\n").trim() || error.message);
    }
    const { code, map } = bundled(built.outputFiles);
    return JSON.stringify({ code, lines: JSON.parse(lineTable(map, this.#project, SDK)) });
  }

  async end() {
    await this.#context?.dispose();
  }
}

/** Returns the name of the interpreter's file in a folder, and builds it if it is not there. */
async function ready(folder) {
  const name = `typescript-${await version()}.wasm`;
  const file = path.join(folder, name);
  if (!existsSync(file)) {
    console.error("building the interpreter, which all projects share");
    await mkdir(folder, { recursive: true });
    const partial = `${file}.${process.pid}.partial`;
    await writeFile(partial, await buildInterpreter());
    await rename(partial, file);
  }
  return name;
}

/** Returns a hash of all that the interpreter depends on. */
async function version() {
  const hash = createHash("sha256");
  const engine = path.join(path.dirname(new URL(import.meta.resolve("componentize-qjs")).pathname), "package.json");
  const names = await Promise.all(["src", "bin", "wit"].map((folder) => readdir(path.join(SDK, folder), { recursive: true })));
  const files = names.flatMap((found, at) => found.map((name) => path.join(SDK, ["src", "bin", "wit"][at], name)));
  for (const file of [...files.filter((name) => path.extname(name)).sort(), engine]) {
    hash.update(`${path.relative(SDK, file)}\0`).update(await readFile(file)).update("\0");
  }
  return hash.digest("hex").slice(0, 32);
}

async function buildInterpreter() {
  const imports = MODULES.map((name, at) => `import * as module${at} from ${JSON.stringify(name)};`);
  const modules = MODULES.map((name, at) => `${JSON.stringify(name)}: module${at}`);
  const lines = [
    `import { exportInterpreter } from "./src/guest/development.ts";`,
    ...imports,
    `export const { reconciler, mapper } = exportInterpreter({ ${modules.join(", ")} });`,
  ];
  const wit = await mkdtemp(path.join(tmpdir(), "operetta-wit-"));
  try {
    await cp(path.join(SDK, "wit", "development", "development.wit"), path.join(wit, "development.wit"));
    await cp(path.join(SDK, "wit", "controller.wit"), path.join(wit, "deps", "controller", "controller.wit"));
    const { code, map } = await bundle({
      stdin: { contents: lines.join("\n"), resolveDir: SDK, sourcefile: "operetta-interpreter.js" },
      absWorkingDir: SDK,
      platform: "neutral",
      external: ["operetta:*"],
    });
    return await componentize(withLines(code, map, SDK), { wit, world: "interpreter" });
  } finally {
    await rm(wit, { recursive: true });
  }
}
