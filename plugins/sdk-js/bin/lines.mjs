/** Source maps reduced to lines, for stacks. src/guest/stack.ts defines the format and reads it. */
import { realpathSync } from "node:fs";
import path from "node:path";

import { decode } from "@jridgewell/sourcemap-codec";

/**
 * Returns the table as JavaScript. File names are relative to the project's folder; the SDK's begin with its package.
 */
export function lineTable(map, project, sdk) {
  const files = [];
  const numbers = new Map();
  let last = { file: -1, line: -1 };
  const lines = decode(map.mappings).map((segments) => {
    const segment = segments.find(({ length }) => length > 1);
    if (!segment) {
      return "-";
    }
    const [, source, zeroBased] = segment;
    if (!numbers.has(source)) {
      numbers.set(source, files.length);
      files.push(nameOf(path.resolve(project, map.sources[source]), project, sdk));
    }
    const here = { file: numbers.get(source), line: zeroBased + 1 };
    const [sameFile, nextLine] = [here.file === last.file, here.line === last.line + 1];
    last = here;
    if (sameFile) {
      return nextLine ? "" : here.line.toString(36);
    }
    return `${here.line.toString(36)}:${here.file.toString(36)}`;
  });
  return JSON.stringify({ files, lines: lines.join(",") });
}

function nameOf(file, project, sdk) {
  const inSdk = path.relative(realpathSync(sdk), file);
  const relative = inSdk.startsWith("..") ? path.relative(project, file) : path.join("@operetta/sdk", inSdk);
  return relative.split(path.sep).join("/");
}
