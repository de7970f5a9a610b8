/** Base64 of UTF-8 text, the encoding of a Secret's `data`. */

declare function atob(text: string): string;
declare function btoa(text: string): string;

/**
 * Encodes text for a Secret's `data`.
 *
 * @throws URIError if the text has a lone surrogate.
 */
export function encodeBase64(text: string): string {
  return btoa(unescape(encodeURIComponent(text)));
}

/**
 * Decodes a value of a Secret's `data`.
 *
 * @throws Error if the value is not base64 of UTF-8 text.
 */
export function decodeBase64(base64: string): string {
  let bytes: string;
  try {
    bytes = atob(base64);
  } catch {
    throw new Error("the value is not base64");
  }
  try {
    return decodeURIComponent(escape(bytes));
  } catch {
    throw new Error("the value is base64, but not of UTF-8 text");
  }
}
