/**
 * Globals that libraries expect and the engine lacks: `structuredClone` for plain data, `TextEncoder` and `TextDecoder`
 * for UTF-8.
 */

/**
 * Copies JSON-like data, including bigints, dates and undefined.
 *
 * @throws TypeError for any other value.
 */
function structuredClone(value: unknown): unknown {
  if (typeof value === "function" || typeof value === "symbol") {
    throw new TypeError(`structuredClone: a ${typeof value} cannot be cloned`);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  if (Array.isArray(value)) {
    return value.map(structuredClone);
  }
  if (value instanceof Date) {
    return new Date(value);
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    throw new TypeError("structuredClone: this engine clones plain objects, arrays and dates only");
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, structuredClone(inner)]));
}

class Utf8Encoder {
  readonly encoding = "utf-8";

  encode(text = ""): Uint8Array {
    const bytes = unescape(encodeURIComponent(text));
    return Uint8Array.from({ length: bytes.length }, (_, i) => bytes.charCodeAt(i));
  }
}

class Utf8Decoder {
  readonly encoding = "utf-8";

  constructor(label = "utf-8") {
    if (!/^utf-?8$/i.test(label)) {
      throw new RangeError(`TextDecoder: this engine knows utf-8 only, not ${label}`);
    }
  }

  /**
   * Decodes UTF-8.
   *
   * @throws TypeError if the bytes are not UTF-8, as browsers do with `fatal`.
   */
  decode(bytes: Uint8Array = new Uint8Array()): string {
    const parts: string[] = [];
    for (let from = 0; from < bytes.length; from += 8192) {
      parts.push(String.fromCharCode(...bytes.subarray(from, from + 8192)));
    }
    try {
      return decodeURIComponent(escape(parts.join("")));
    } catch {
      throw new TypeError("TextDecoder: the bytes are not UTF-8");
    }
  }
}

for (const [name, value] of Object.entries({ structuredClone, TextEncoder: Utf8Encoder, TextDecoder: Utf8Decoder })) {
  if (!(name in globalThis)) {
    Object.assign(globalThis, { [name]: value });
  }
}
