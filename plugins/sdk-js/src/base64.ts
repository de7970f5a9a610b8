/** Base64 of text as UTF-8: what a Secret's `data` holds. */

declare function atob(text: string): string;
declare function btoa(text: string): string;

/** Writes text as a Secret's `data` has it. Throws a URIError if it holds half a surrogate pair. */
export function encodeBase64(text: string): string {
  return btoa(unescape(encodeURIComponent(text)));
}

/** Reads a value of a Secret's `data`. Throws an Error if it is not base64, or not UTF-8 inside. */
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
