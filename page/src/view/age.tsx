// A time as an age by the host's clock; the exact time is its tooltip. One timer serves all ages of the page.

import { useEffect, useReducer } from "preact/hooks";
import { age, until } from "../model/age.ts";
import { clock } from "../model/clock.ts";

const shown = new Set<() => void>();
setInterval(() => {
  if (!document.hidden) for (const render of [...shown]) render();
}, 1000);

function useSeconds(): void {
  const [, render] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const again = () => render(undefined as never);
    shown.add(again);
    return () => {
      shown.delete(again);
    };
  }, []);
}

/** The age of a time. */
export function Age({ time }: { time: string | null | undefined }) {
  useSeconds();
  const text = age(time, clock.now());
  return text && time ? (
    <time dateTime={time} title={time}>
      {text}
    </time>
  ) : (
    <>{"–"}</>
  );
}

/** The time until a time. */
export function Until({ time }: { time: string | null | undefined }) {
  useSeconds();
  const text = until(time, clock.now());
  return text && time ? (
    <time dateTime={time} title={time}>
      {text}
    </time>
  ) : (
    <>{"–"}</>
  );
}
