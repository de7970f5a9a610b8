/** esbuild with the common options of plugins and tests. */
import { build as esbuild } from "esbuild";

import { BuildError, SDK } from "./build.mjs";

/** Resolves the SDK to this package, wherever the project has it installed. */
export const ownSdk = {
  name: "own-sdk",
  setup(build) {
    build.onResolve({ filter: /^@operetta\/sdk(\/|$)/ }, ({ path, kind, pluginData }) =>
      pluginData === ownSdk ? undefined : build.resolve(path, { kind, resolveDir: SDK, pluginData: ownSdk }),
    );
  },
};

/** The common options. */
export const OPTIONS = {
  bundle: true,
  format: "esm",
  target: "es2023",
  conditions: ["@operetta/source", "import", "default"],
  sourcesContent: false,
  logLevel: "error",
  plugins: [ownSdk],
};

/** The options of a bundle that is not written. */
export const IN_MEMORY = { write: false, outfile: "bundle.js", sourcemap: "external" };

/**
 * Bundles one entry and returns its code and source map.
 *
 * @throws BuildError if the bundle fails; esbuild has printed the errors.
 */
export async function bundle(options) {
  return bundled((await run({ ...options, ...IN_MEMORY })).outputFiles);
}

/** Returns the code and the source map among the files of esbuild. */
export function bundled(outputFiles) {
  const text = (suffix) => outputFiles.find(({ path }) => path.endsWith(suffix)).text;
  return { code: text(".js"), map: JSON.parse(text(".map")) };
}

/**
 * Runs esbuild.
 *
 * @throws BuildError if it fails.
 */
export async function run(options) {
  try {
    return await esbuild({ ...OPTIONS, ...options });
  } catch (error) {
    const count = error.errors?.length ?? 0;
    throw new BuildError(count > 0 ? `${count} error${count > 1 ? "s" : ""}, above` : error.message);
  }
}
