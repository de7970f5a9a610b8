// The keys of the page, and their list.

import { useEffect, useRef } from "preact/hooks";
import { go } from "./navigation.tsx";

const KEYS: [string, string][] = [
  ["/", "Go to the filter"],
  ["Esc", "Leave the filter; close this list"],
  ["↑ ↓", "Move among rows"],
  ["PgUp PgDn Home End", "Move far in a long table"],
  ["← →", "Scroll a wide table"],
  ["Enter", "Open the row"],
  ["g p", "Plugins"],
  ["g k", "Kinds"],
  ["g t", "Tenants"],
  ["g i", "Informers"],
  ["?", "Show this list"],
];
const PLACES: Record<string, string> = { p: "/page/plugins", k: "/page/kinds", t: "/page/tenants", i: "/page/informers" };
/** The time for the second key of `g p`. */
const SEQUENCE = 1000;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Handles the keys while the page is shown. */
export function useKeys(help: () => void): void {
  useEffect(() => {
    let afterG = 0;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        return;
      }
      const place = event.timeStamp - afterG < SEQUENCE ? PLACES[event.key] : undefined;
      afterG = event.key === "g" ? event.timeStamp : 0;
      if (place) go(place);
      else if (event.key === "?") help();
      else if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("input[data-filter]");
        if (!filter) return;
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

/** The list of keys, a dialog. */
export function KeysHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !ref.current?.open) ref.current?.showModal();
  }, [open]);
  return (
    <dialog ref={ref} aria-labelledby="keys-title" onClose={onClose}>
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((part) => (
                <kbd key={part}>{part}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => ref.current?.close()}>
        Close
      </button>
    </dialog>
  );
}
