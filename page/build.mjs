// build.mjs [FOLDER]: builds the page into FOLDER, by default dist/: app-HASH.js, app-HASH.css and manifest.json. The same
// source and lockfile give the same bytes; there is no time, path or source map in them.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? `${here}dist`;

/** The license of preact, whose code is in the bundle, asks to be in each copy. */
const license = readFileSync(`${here}node_modules/preact/LICENSE`, "utf8").trim();

const result = await build({
  entryPoints: { app: `${here}src/main.tsx` },
  absWorkingDir: here,
  outdir: folder,
  write: false,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox128", "safari17.5"],
  legalComments: "none",
  banner: { js: `/* Contains preact.\n${license}\n*/` },
  logLevel: "warning",
});

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const manifest = {};
for (const file of result.outputFiles) {
  const extension = file.path.endsWith(".css") ? "css" : "js";
  const hash = createHash("sha256").update(file.contents).digest("hex").slice(0, 12);
  const name = `app-${hash}.${extension}`;
  writeFileSync(`${folder}/${name}`, file.contents);
  manifest[`app.${extension}`] = name;
}
const sorted = Object.fromEntries(Object.entries(manifest).sort(([a], [b]) => (a < b ? 1 : -1)));
writeFileSync(`${folder}/manifest.json`, `${JSON.stringify(sorted)}\n`);
if (readdirSync(folder).length !== 3) throw new Error(`${folder} must have three files`);
