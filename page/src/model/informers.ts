// The state of an informer.

import type { Health, Informer } from "../api/types.ts";

/** The time after which an informer that is not current should have heard from the API server, in seconds: it sends a bookmark about once a minute. */
const LATE = 120;

/** Returns the state of an informer. Between two bookmarks, the revision of a quiet kind stays behind that of the whole API server. */
export function informerState({ error, synced, current, heardSeconds }: Informer): { health: Health; text: string } {
  if (error) return { health: "bad", text: error };
  if (synced === false) return { health: "progressing", text: "Syncing" };
  if (current === false && (heardSeconds ?? Infinity) > LATE) return { health: "progressing", text: "Behind the API server" };
  return { health: "ok", text: current ? "Current" : "Synced" };
}
