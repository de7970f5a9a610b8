// A message of the host, with its names and commands as code.

import { messageParts } from "../model/message.ts";

/** The message; `remedies` are the commands in it that are the host's. */
export function Message({ text, remedies = [] }: { text: string; remedies?: string[] | undefined }) {
  return (
    <>
      {messageParts(text, remedies).map((part, i) => (part.kind === "text" ? part.text : <code key={i} class={part.kind === "command" ? "command" : undefined}>{part.text}</code>))}
    </>
  );
}
