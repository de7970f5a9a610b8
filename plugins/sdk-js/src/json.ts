/**
 * Lossless JSON: an integer beyond ±(2^53 - 1) is parsed as a bigint, and a bigint is written as an integer. Every
 * other number is a number, as in JSON.parse.
 *
 * This needs the source text of JSON.parse and JSON.rawJSON, which the plugins' engine has, and Node from version 21.
 * For Node 20 the test kit uses a library, which is not part of plugins.
 */

/** A parser and writer of JSON. */
export interface Codec {
  parse(text: string): unknown;
  stringify(value: unknown): string | undefined;
}

interface Native {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON?(text: string): unknown;
}

const native = JSON as unknown as Native;

/** True if the engine has JSON.rawJSON. */
export const isNative = typeof native.rawJSON === "function";

function revive(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) {
    return value;
  }
  return integer(context.source ?? "") ?? value;
}

/** Returns the integer that a JSON number's text denotes, or undefined if the text is not an integer. */
export function integer(source: string): bigint | undefined {
  return /^-?\d+$/.test(source) ? BigInt(source) : undefined;
}

function raw(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? native.rawJSON?.(value.toString()) : value;
}

const SIXTEEN_DIGITS = /\d{16}/;

/**
 * Reports whether a text may hold an integer of sixteen digits or more. It is conservative: it returns true for any
 * text with an escaped quote. It takes a third of the time of a reviver, because the engine splits natively and the
 * parts between strings are short.
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
      // A bigint, a cycle, or a toJSON that threw. The second attempt succeeds for a bigint only.
      if (!isNative || !(error instanceof TypeError)) {
        throw error;
      }
      return JSON.stringify(value, raw);
    }
  },
};

/** Replaces the codec, for engines without JSON.rawJSON. */
export function useCodec(other: Codec): void {
  codec = other;
}

/**
 * Parses a JSON text.
 *
 * @throws SyntaxError that names the text as `what`, if it is not JSON.
 */
export function parse(text: string, what: string): unknown {
  try {
    return codec.parse(text);
  } catch (error) {
    throw new SyntaxError(`${what} is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/**
 * Writes a value as JSON.
 *
 * @throws TypeError that names the value as `what`, if it cannot be written as JSON.
 */
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
 * Reports whether two values are equal to the API server: an absent field, `null`, `[]` and `{}` are equal, and a
 * bigint equals the number with the same digits (apimachinery's `equality.Semantic.DeepEqual`).
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
