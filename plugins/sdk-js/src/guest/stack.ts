/**
 * Where an error came from, in the author's files. The engine's stack names lines of the bundle; the build leaves a
 * table beside it that says which source line each was.
 */

/**
 * What the build writes: names of files, and for each line of the bundle (counted from 1) `file:line`, both in base 36,
 * or nothing; the file or line left out is the one before, or the line after it.
 */
export interface LineTable {
  readonly files: readonly string[];
  readonly lines: string;
}

/** Files of the SDK begin so. */
export const SDK_FILES = "@operetta/sdk/";

interface Frame {
  readonly name: string;
  readonly file: string;
  readonly line: number;
}

/** `    at sing (componentize-qjs:user.js:12:9)`, or without a name and its parentheses. */
const FRAME = /^\s*at (?:(.*?) \()?(?:.*:)?user\.js:(\d+)(?::\d+)?\)?$/;

function tableOf(): LineTable | undefined {
  return (globalThis as { __operettaLines?: LineTable }).__operettaLines;
}

/** Reads the table; done only when an error is told. */
function placesOf({ files, lines }: LineTable): (readonly [file: string, line: number] | undefined)[] {
  let file = 0;
  let line = 0;
  return lines.split(",").map((entry) => {
    if (entry === "-") {
      return undefined;
    }
    const [at, from] = entry.split(":");
    line = at ? Number.parseInt(at, 36) : line + 1;
    file = from ? Number.parseInt(from, 36) : file;
    return [files[file] ?? "", line] as const;
  });
}

function framesOf(error: Error): Frame[] {
  const table = tableOf();
  if (!table || typeof error.stack !== "string") {
    return [];
  }
  const places = placesOf(table);
  return error.stack.split("\n").flatMap((text) => {
    const match = FRAME.exec(text);
    const place = match && places[Number(match[2]) - 1];
    return place ? [{ name: match[1] || "<anonymous>", file: place[0], line: place[1] }] : [];
  });
}

const show = ({ name, file, line }: Frame) => `${name} (${file}:${line})`;

/** The stack in the author's files, one frame per line, innermost first; the engine's own if there is no table. */
export function stackOf(error: Error): string {
  const frames = framesOf(error).map((frame) => `at ${show(frame)}`);
  return frames.length > 0 ? frames.join("\n") : (error.stack ?? "");
}

/** The innermost of the author's own functions, e.g. `sing (src/plugin.ts:12)`; empty if it cannot be told. */
export function placeOf(error: Error): string {
  const frame = framesOf(error).find(({ file }) => !file.startsWith(SDK_FILES));
  return frame ? show(frame) : "";
}
