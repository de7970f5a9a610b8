// Messages of the host as text and code: they quote names in backquotes and have commands to copy.

/** A part of a message. */
export interface Part {
  text: string;
  /** `command` is a whole command for a shell, `code` a name in backquotes. */
  kind: "text" | "code" | "command";
}

/**
 * Splits a message into its parts. Only `remedies`, the commands that the host itself gives apart from the message, are shown as
 * commands: the rest of a message may be a plugin's own words.
 */
export function messageParts(message: string, remedies: string[] = []): Part[] {
  const parts: Part[] = [];
  let end = 0;
  while (end < message.length) {
    const next = firstPart(message, end, remedies);
    const at = next?.at ?? message.length;
    if (at > end) parts.push({ text: message.slice(end, at), kind: "text" });
    if (!next) break;
    parts.push({ text: next.text, kind: next.kind });
    end = next.end;
    // The separator of the next sentence says nothing after a command, which has a line of its own.
    if (next.kind === "command" && message.startsWith("; ", end)) end += 2;
  }
  return parts;
}

/** The first command or name after a position, and where it ends. */
function firstPart(message: string, from: number, remedies: string[]): (Part & { at: number; end: number }) | undefined {
  const found = remedies
    .filter((remedy) => remedy !== "")
    .map((text) => ({ text, kind: "command" as const, at: message.indexOf(text, from), end: message.indexOf(text, from) + text.length }))
    .filter(({ at }) => at >= 0)
    // Of two that begin together the longer one: one remedy may begin as another.
    .sort((a, b) => a.at - b.at || b.end - a.end)[0];
  const quoted = /`([^`]+)`/g;
  quoted.lastIndex = from;
  const code = quoted.exec(message);
  if (code && (!found || code.index < found.at)) return { text: code[1] ?? "", kind: "code", at: code.index, end: quoted.lastIndex };
  return found;
}
