// A state as a shape, a colour and a word. The shapes differ, so that the colour is not needed.

import type { Health } from "../api/types.ts";

const SHAPES: Record<Health, preact.JSX.Element> = {
  ok: (
    <>
      <circle cx="8" cy="8" r="6.5" />
      <path class="mark" d="M5 8.3l2.1 2.1L11 6.2" />
    </>
  ),
  progressing: (
    <>
      <circle class="hollow" cx="8" cy="8" r="6" />
      <path d="M8 2a6 6 0 0 1 0 12z" />
    </>
  ),
  bad: (
    <>
      <path d="M8 1.2 15.3 14.4H.7z" />
      <path class="mark" d="M8 6v4M8 11.4v1.2" />
    </>
  ),
  unknown: <circle class="hollow" cx="8" cy="8" r="6" stroke-dasharray="2.4 2.2" />,
};

/** The shape of a health, without a word. */
export function Shape({ health }: { health: Health }) {
  return (
    <svg class={`shape ${health}`} viewBox="0 0 16 16" width="12" height="12" aria-hidden="true">
      {SHAPES[health] ?? SHAPES.unknown}
    </svg>
  );
}

/** A shape and a word. */
export function State({ health, text }: { health: Health; text: string }) {
  return (
    <span class={`state ${health}`}>
      <Shape health={health} />
      <span>{text}</span>
    </span>
  );
}
