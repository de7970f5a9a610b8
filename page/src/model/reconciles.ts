// What a reconcile did and how it ended.

import { decimal } from "./units.ts";
import type { Call, Health, Reconcile } from "../api/types.ts";

const READS = /^(get|list|watch)\b/;

/** Returns the writes of a reconcile, also those that were not sent or failed. */
export function writesOf({ calls }: Reconcile): Call[] {
  return calls.filter((call) => !READS.test(call.verb));
}

/** Returns the number of reads of a reconcile. */
export function readsOf(reconcile: Reconcile): number {
  return reconcile.calls.length - writesOf(reconcile).length;
}

/** Describes a call, with the fields that a write changed and its result. */
export function describeCall({ verb, object, paths, result }: Call): string {
  const fields = paths?.length ? ` ${paths.join(", ")}` : "";
  return `${verb} ${object}${fields}${result === "ok" ? "" : `: ${result}`}`;
}

/** Describes how a reconcile ended. */
export function outcome({ result, error, requeueAfterMilliseconds: delay }: Reconcile): string {
  if (error) return `${result} (${error})`;
  return delay === undefined ? result : `requeue after ${decimal(delay / 1000)} s`;
}

/** Returns the health of a reconcile: an error is bad; one that was aborted, because the host or the code changed, says nothing. */
export function outcomeHealth({ result }: Reconcile): Health {
  if (result === "error") return "bad";
  if (result === "aborted") return "unknown";
  return result === "requeue" ? "progressing" : "ok";
}
