/**
 * What a call of `console` becomes in the plugin's log: a level, a message and fields.
 *
 * The message is made as consoles do: `%s`, `%d`, `%i`, `%f`, `%j`, `%o` and `%O` are filled in, further arguments follow
 * after blanks, objects as JSON. One thing is ours: a plain object that follows the message as the last argument gives
 * the line's fields, so `console.info("scaled", { from: 1, to: 3 })` can be searched by `to`.
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

/** The level of each of the console's functions. */
export const LEVELS = { error: "error", warn: "warn", info: "info", log: "info", debug: "debug", trace: "trace" } as const;

/** Makes the line. `stackOf` says how an error's stack is shown. */
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

/** Whether a placeholder of the message stands for the last argument. */
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

/** A value as a line shows it. It never throws. */
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
