// lint.mjs: fails if the source could show text as HTML or needs more than the strict Content-Security-Policy allows, and if a
// file is long. What objects and plugins say is text: there is no exception to that.

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const RULES = [
  [/\b(inner|outer)HTML\b|\binsertAdjacentHTML\b|\bdangerouslySetInnerHTML\b|\bsetHTML(Unsafe)?\b|\bcreateContextualFragment\b|\bDOMParser\b|\bsrcdoc\b|\bdocument\.write/, "makes HTML of a string"],
  [/\beval\(|\bnew Function\b|\bimport\((?!")|javascript:/, "runs a string"],
  [/\bstyle="|setAttribute\(\s*["'`]style|\bcssText\b|<style\b|<script\b/, "needs inline styles or scripts; set a property of element.style"],
  [/\bon[a-z]+="/, "has an inline handler"],
  [/https?:\/\/(?!www\.w3\.org\/)/, "names another origin"],
];
const LINES = 400;

/** Returns the findings in a source text. */
export function findings(name, source) {
  const found = [];
  const lines = source.split("\n");
  if (lines.length > LINES) found.push(`${name}: ${lines.length} lines, more than ${LINES}`);
  for (const [i, line] of lines.entries()) {
    if (/^\s*(\/\/|\*|\/\*)/.test(line)) continue;
    for (const [pattern, problem] of RULES) if (pattern.test(line)) found.push(`${name}:${i + 1}: ${problem}: ${line.trim()}`);
  }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const src = fileURLToPath(new URL("src/", import.meta.url));
  const files = readdirSync(src, { recursive: true }).filter((file) => /\.(tsx?|css)$/.test(file));
  const found = files.flatMap((file) => findings(`src/${file}`, readFileSync(src + file, "utf8")));
  for (const finding of found) console.error(`lint: ${finding}`);
  process.exit(found.length > 0 ? 1 : 0);
}
