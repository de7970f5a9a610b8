/** esbuild with what plugins and tests have in common. */
import { build as esbuild } from "esbuild";

import { BuildError, SDK } from "./build.mjs";

/** The SDK in a bundle is the one that builds it, wherever the project has it. */
const ownSdk = {
  name: "own-sdk",
  setup(build) {
    build.onResolve({ filter: /^@operetta\/sdk(\/|$)/ }, ({ path, kind, pluginData }) =>
      pluginData === ownSdk ? undefined : build.resolve(path, { kind, resolveDir: SDK, pluginData: ownSdk }),
    );
  },
};

/** Bundles one entry and returns its code and source map. Throws a BuildError; esbuild has printed what is wrong. */
export async function bundle(options) {
  const { outputFiles } = await run({ ...options, write: false, outfile: "bundle.js", sourcemap: "external" });
  const text = (suffix) => outputFiles.find(({ path }) => path.endsWith(suffix)).text;
  return { code: text(".js"), map: JSON.parse(text(".map")) };
}

/** Runs esbuild. */
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
