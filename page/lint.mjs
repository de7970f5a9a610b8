// lint.mjs: fails if the source could show text as HTML or needs more than the strict Content-Security-Policy allows, and if a
// file is long.

import { readdirSync, readFileSync } from "node:fs";
import { findings } from "./lint_rules.mjs";

const src = new URL("src/", import.meta.url);
const files = readdirSync(src, { recursive: true }).filter((file) => /\.(tsx?|css)$/.test(file));
const found = files.flatMap((file) => findings(`src/${file}`, readFileSync(new URL(file, src), "utf8")));
for (const finding of found) console.error(`lint: ${finding}`);
process.exit(found.length > 0 ? 1 : 0);
