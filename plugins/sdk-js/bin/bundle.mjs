/** esbuild with the common options of plugins and tests. */
import { build as esbuild } from "esbuild";

import { BuildError, SDK } from "./build.mjs";

/** Resolves the SDK to this package, wherever the project has it installed. */
const ownSdk = {
  name: "own-sdk",
  setup(build) {
    build.onResolve({ filter: /^@operetta\/sdk(\/|$)/ }, ({ path, kind, pluginData }) =>
      pluginData === ownSdk ? undefined : build.resolve(path, { kind, resolveDir: SDK, pluginData: ownSdk }),
    );
  },
};

/**
 * Bundles one entry and returns its code and source map.
 *
 * @throws BuildError if the bundle fails; esbuild has printed the errors.
 */
export async function bundle(options) {
  const { outputFiles } = await run({ ...options, write: false, outfile: "bundle.js", sourcemap: "external" });
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
    return await esbuild({
      bundle: true,
      format: "esm",
      target: "es2023",
      conditions: ["@operetta/source", "import", "default"],
      sourcesContent: false,
      logLevel: "error",
      plugins: [ownSdk],
      ...options,
    });
  } catch (error) {
    const count = error.errors?.length ?? 0;
    throw new BuildError(count > 0 ? `${count} error${count > 1 ? "s" : ""}, above` : error.message);
  }
}
