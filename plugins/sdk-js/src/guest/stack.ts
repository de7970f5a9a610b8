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

/** `    at sing (componentize-qjs:user.js:12:9)`, or without a name and its parentheses. Evaluated source is `<input>`. */
const FRAME = /^\s*at (?:(.*?) \()?(?:.*:)?(user\.js|<input>):(\d+)(?::\d+)?\)?$/;

/** The table of the source that an interpreter evaluates. */
let evaluated: LineTable | undefined;

/** Sets the table of the source that an interpreter evaluates. */
export function setSourceLines(table: LineTable): void {
  evaluated = table;
}

/** Returns the tables by the name that the engine gives a script. */
function tablesOf(): Readonly<Record<string, LineTable | undefined>> {
  return { "user.js": (globalThis as { __operettaLines?: LineTable }).__operettaLines, "<input>": evaluated };
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
  if (typeof error.stack !== "string") {
    return [];
  }
  const decoded = Object.entries(tablesOf()).map(([script, table]) => [script, table && sourceLinesOf(table)] as const);
  const sourceLines = Object.fromEntries(decoded);
  return error.stack.split("\n").flatMap((text) => {
    const match = FRAME.exec(text);
    const source = match && sourceLines[match[2] ?? ""]?.[Number(match[3]) - 1];
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
