/**
 * Conversion of `console` calls to lines of the plugin's log: a level, a message and fields.
 *
 * The message is formatted as by other consoles: `%s`, `%d`, `%i`, `%f`, `%j`, `%o` and `%O` are replaced, and further
 * arguments follow after blanks, objects as JSON. Unlike there, a plain object as the last argument after the message
 * becomes the fields of the line: `console.info("scaled", { from: 1, to: 3 })` has the fields `from` and `to`.
 */
import { isNative } from "./json.ts";

/** The contract's levels, most important first. */
export type Level = "error" | "warn" | "info" | "debug" | "trace";

/** One line of the log. */
export interface LogLine {
  readonly level: Level;
  readonly message: string;
  /** Names and values, in order. */
  readonly fields: [name: string, value: string][];
}

/** The level of each function of `console`. */
export const LEVELS = { error: "error", warn: "warn", info: "info", log: "info", debug: "debug", trace: "trace" } as const;

/** Makes a line. `stackOf` formats the stack of an error. */
export function logLine(level: Level, args: readonly unknown[], stackOf: (error: Error) => string): LogLine {
  const last = args.length > 1 && typeof args[0] === "string" ? args.at(-1) : undefined;
  const fields: LogLine["fields"] = [];
  let rest = args;
  if (isPlain(last) && !takesLast(args)) {
    rest = args.slice(0, -1);
    for (const [name, value] of Object.entries(last)) {
      fields.push([name, textOf(value)]);
    }
  }
  for (const error of rest) {
    if (error instanceof Error) {
      fields.push(["stack", stackOf(error)]);
    }
  }
  return { level, message: format(rest), fields };
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

const PLACEHOLDER = /%[sdifjoO%]/g;

/** Reports whether a placeholder of the message consumes the last argument. */
function takesLast([message, ...args]: readonly unknown[]): boolean {
  const placeholders = String(message).match(PLACEHOLDER) ?? [];
  return placeholders.filter((placeholder) => placeholder !== "%%").length >= args.length;
}

function format(args: readonly unknown[]): string {
  const [first, ...rest] = args;
  if (typeof first !== "string") {
    return args.map(textOf).join(" ");
  }
  if (rest.length === 0) {
    return first;
  }
  let next = 0;
  const message = first.replace(PLACEHOLDER, (placeholder) => {
    if (placeholder === "%%") {
      return "%";
    }
    if (next >= rest.length) {
      return placeholder;
    }
    const value = rest[next];
    next += 1;
    switch (placeholder) {
      case "%d":
        return typeof value === "bigint" ? String(value) : String(Number(value));
      case "%i":
        return String(Number.parseInt(String(value), 10));
      case "%f":
        return String(Number.parseFloat(String(value)));
      default:
        return textOf(value);
    }
  });
  return [message, ...rest.slice(next).map(textOf)].join(" ");
}

/** Formats a value. Never throws. */
function textOf(value: unknown): string {
  if (value instanceof Error) {
    return `${value.name}: ${value.message}`;
  }
  if (typeof value === "object" && value !== null) {
    try {
      return JSON.stringify(value, (_name, inner: unknown) => (typeof inner === "bigint" ? digits(inner) : inner));
    } catch {
      return Object.prototype.toString.call(value);
    }
  }
  if (typeof value === "function") {
    return `[function ${value.name || "anonymous"}]`;
  }
  return String(value);
}

function digits(value: bigint): unknown {
  const raw = JSON as unknown as { rawJSON(text: string): unknown };
  return isNative ? raw.rawJSON(value.toString()) : value.toString();
}
