// A message of the host, with its names and commands as code.

import { messageParts } from "../model/message.ts";

/** The message. */
export function Message({ text }: { text: string }) {
  return (
    <>
      {messageParts(text).map((part, i) => (part.kind === "text" ? part.text : <code key={i} class={part.kind === "command" ? "command" : undefined}>{part.text}</code>))}
    </>
  );
}
