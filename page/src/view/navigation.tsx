// The place in the address bar, as state. Links inside the page change it without a load.

import { useEffect, useState } from "preact/hooks";

const CHANGED = "operetta-navigation";

/** The place: path and query. */
export interface Place {
  path: string;
  query: string;
}

function here(): Place {
  return { path: location.pathname, query: location.search };
}

/** Goes to a place of the page. `replace` leaves no entry in the history, as typing in a filter must not. */
export function go(path: string, replace = false): void {
  if (path === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", path);
  dispatchEvent(new Event(CHANGED));
}

/** Returns the place, and renders again when it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const changed = () => setPlace(here());
    addEventListener("popstate", changed);
    addEventListener(CHANGED, changed);
    return () => {
      removeEventListener("popstate", changed);
      removeEventListener(CHANGED, changed);
    };
  }, []);
  return place;
}

/** Follows clicks on links of the page without a load. Clicks with a modifier, downloads and the sign-in are left to the browser. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const path = link?.getAttribute("href");
  if (!path?.startsWith("/page/") || link?.hasAttribute("target") || path.startsWith("/page/sign-")) return;
  event.preventDefault();
  go(path);
}
