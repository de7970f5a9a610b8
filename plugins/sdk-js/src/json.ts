/**
 * JSON text to values and back without losing digits: an integer beyond ±(2^53 - 1) becomes a bigint, and a bigint is
 * written as the integer it is. Every other number is a number, as in JSON.parse.
 *
 * The engine that plugins run on has what this needs (JSON.parse's source text, JSON.rawJSON). Node has it from 21 on;
 * the test kit brings a library for Node 20, so that it is in no plugin.
 */

/** Reads and writes JSON. */
export interface Codec {
  parse(text: string): unknown;
  stringify(value: unknown): string | undefined;
}

interface Native {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON?(text: string): unknown;
}

const native = JSON as unknown as Native;

/** Whether the engine can do it by itself. */
export const isNative = typeof native.rawJSON === "function";

function revive(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) {
    return value;
  }
  return integer(context.source ?? "") ?? value;
}

/** The integer that a number's text says exactly, if it says one. */
export function integer(source: string): bigint | undefined {
  return /^-?\d+$/.test(source) ? BigInt(source) : undefined;
}

function raw(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? native.rawJSON?.(value.toString()) : value;
}

const SIXTEEN_DIGITS = /\d{16}/;

/**
 * Whether a text may hold an integer of sixteen digits or more. It costs a third of what asking for each value does:
 * splitting is the engine's own work, and what stands between strings is short. Where an escaped quote makes it unclear
 * what stands between strings, it may.
 */
export function mayHoldLargeInteger(text: string): boolean {
  if (text.includes('\\"')) {
    return true;
  }
  const parts = text.split('"');
  for (let i = 0; i < parts.length; i += 2) {
    const between = parts[i] as string;
    if (between.length >= 16 && SIXTEEN_DIGITS.test(between)) {
      return true;
    }
  }
  return false;
}

let codec: Codec = {
  parse: (text) => (mayHoldLargeInteger(text) ? native.parse(text, revive) : JSON.parse(text)),
  stringify(value) {
    try {
      return JSON.stringify(value);
    } catch (error) {
      // A bigint, a cycle, or a toJSON that threw: the second attempt cures the first of these only.
      if (!isNative || !(error instanceof TypeError)) {
        throw error;
      }
      return JSON.stringify(value, raw);
    }
  },
};

/** Takes another codec, for engines that have not what is needed. */
export function useCodec(other: Codec): void {
  codec = other;
}

/** Reads a JSON text. Throws a SyntaxError that says what the text is if it is not JSON. */
export function parse(text: string, what: string): unknown {
  try {
    return codec.parse(text);
  } catch (error) {
    throw new SyntaxError(`${what} is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Writes a value. Throws a TypeError that says what it is if it cannot be JSON. */
export function stringify(value: unknown, what: string): string {
  let text: string | undefined;
  try {
    text = codec.stringify(value);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new TypeError(`${what} cannot be written as JSON: ${why}`);
  }
  if (text === undefined) {
    throw new TypeError(`${what} cannot be written as JSON: it is ${typeof value}`);
  }
  return text;
}

/**
 * Reports whether two values are equal to the API server: an absent field, `null`, `[]` and `{}` do not differ, and a
 * bigint equals the number of the same digits (apimachinery's `equality.Semantic.DeepEqual`).
 */
export function semanticDeepEqual(a: unknown, b: unknown): boolean {
  if (a === b || (isEmpty(a) && isEmpty(b))) {
    return true;
  }
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) {
    return (typeof a === "bigint" || typeof b === "bigint") && String(a) === String(b);
  }
  if (Array.isArray(a) || Array.isArray(b)) {
    const sameLength = Array.isArray(a) && Array.isArray(b) && a.length === b.length;
    return sameLength && a.every((item, i) => semanticDeepEqual(item, b[i]));
  }
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  return (
    Object.keys(left).every((name) => semanticDeepEqual(left[name], right[name])) &&
    Object.keys(right).every((name) => name in left || isEmpty(right[name]))
  );
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) {
    return true;
  }
  return typeof value === "object" && Object.keys(value).length === 0;
}
