/**
 * Stacks in the author's files. The engine's stack names lines of the bundle; the build adds a table that maps them to
 * source lines.
 */

/**
 * The table of source lines. Entry N of `lines` belongs to line N of the bundle, counted from 1: `line:file`, both in
 * base 36, or `-` for none. A missing line is the previous one plus 1; a missing file is the previous one.
 */
export interface LineTable {
  readonly files: readonly string[];
  readonly lines: string;
}

/** The prefix of the SDK's files. */
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

/** Decodes the table. */
function sourceLinesOf({ files, lines }: LineTable): (readonly [file: string, line: number] | undefined)[] {
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
  const sourceLines = sourceLinesOf(table);
  return error.stack.split("\n").flatMap((text) => {
    const match = FRAME.exec(text);
    const source = match && sourceLines[Number(match[2]) - 1];
    return source ? [{ name: match[1] || "<anonymous>", file: source[0], line: source[1] }] : [];
  });
}

const show = ({ name, file, line }: Frame) => `${name} (${file}:${line})`;

/** Returns the stack in source lines, one frame per line, innermost first. Without a table it is the engine's stack. */
export function stackOf(error: Error): string {
  const frames = framesOf(error).map((frame) => `at ${show(frame)}`);
  return frames.length > 0 ? frames.join("\n") : (error.stack ?? "");
}

/** Returns the innermost frame outside the SDK, e.g. `sing (src/plugin.ts:12)`; empty if unknown. */
export function locationOf(error: Error): string {
  const frame = framesOf(error).find(({ file }) => !file.startsWith(SDK_FILES));
  return frame ? show(frame) : "";
}
