// Messages of the host as text and code: they quote names in backquotes and have commands to copy.

/** A part of a message. */
export interface Part {
  text: string;
  /** `command` is a whole command for a shell, `code` a name in backquotes. */
  kind: "text" | "code" | "command";
}

/** A part in backquotes, or a command of kubectl up to the end of its sentence; a semicolon ends a sentence of the host. */
const PARTS = /`([^`]+)`|((?<=: )kubectl [^;`]+)/g;

/** Splits a message into its parts. */
export function messageParts(message: string): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const found of message.matchAll(PARTS)) {
    if (found.index > end) parts.push({ text: message.slice(end, found.index), kind: "text" });
    const [whole, code, command] = found;
    parts.push(code === undefined ? { text: (command ?? "").trimEnd(), kind: "command" } : { text: code, kind: "code" });
    end = found.index + whole.length;
    // The separator of the next sentence says nothing after a command, which has a line of its own.
    if (code === undefined && message.startsWith("; ", end)) end += 2;
  }
  if (end < message.length) parts.push({ text: message.slice(end), kind: "text" });
  return parts;
}
