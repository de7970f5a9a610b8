/** What a reconciler is asked, and what it answers when all went well. */
import type { ObjectKey } from "./object.ts";

/** A key that is to be brought to its desired state. It is never an event: read the object, which may be gone. */
export interface Request {
  /** The controller's name. */
  readonly controller: string;
  /** The object's key; its kind is the one of the controller's `for`. */
  readonly key: ObjectKey;
  /** How often in a row reconciling this key has failed: 0 the first time. */
  readonly retries: number;
  /** Unique for each reconcile, as in logs and traces. */
  readonly reconcileId: string;
}

/** What happens to the key after a reconcile that worked. A reconciler that returns nothing is done. */
export type Result =
  | { readonly type: "done" }
  | { readonly type: "requeue" }
  | { readonly type: "requeue-after"; readonly milliseconds: number };

const DONE: Result = { type: "done" };
const REQUEUE: Result = { type: "requeue" };

/** The longest delay that the contract can say: 49 days. */
const MAX_DELAY_MS = 0xffff_ffff;

/** Nothing more, until something changes. The retries are forgotten. */
export function done(): Result {
  return DONE;
}

/** Again, after the rate limiter's delay, which grows each time (controller-runtime's `Result{Requeue: true}`). */
export function requeue(): Result {
  return REQUEUE;
}

/**
 * Again after this many milliseconds, rounded up, at most 49 days. The retries are forgotten; an event comes earlier.
 * Throws a RangeError if it is negative or no number.
 */
export function requeueAfter(milliseconds: number): Result {
  if (!(milliseconds >= 0)) {
    throw new RangeError(`requeueAfter(${milliseconds}): the delay must be 0 or more milliseconds`);
  }
  return { type: "requeue-after", milliseconds: Math.min(Math.ceil(milliseconds), MAX_DELAY_MS) };
}
