/** The request and the result of a reconcile. */
import type { ObjectKey } from "./object.ts";

/** A key to reconcile. It carries no event: read the object, which may not exist. */
export interface Request {
  /** The controller's name. */
  readonly controller: string;
  /** The key of an object of the controller's `for` kind. */
  readonly key: ObjectKey;
  /** The number of consecutive failures of this key; 0 at first. */
  readonly retries: number;
  /** The unique id of the reconcile, as in logs and traces. */
  readonly reconcileId: string;
}

/** The result of a successful reconcile. Returning nothing means `done()`. */
export type Result =
  | { readonly type: "done" }
  | { readonly type: "requeue" }
  | { readonly type: "requeue-after"; readonly milliseconds: number };

const DONE: Result = { type: "done" };
const REQUEUE: Result = { type: "requeue" };

/** The longest delay of the contract: 49 days. */
const MAX_DELAY_MS = 0xffff_ffff;

/** Ends the reconcile and resets the retries. The next event enqueues the key again. */
export function done(): Result {
  return DONE;
}

/**
 * Requeues the key after the rate limiter's delay, which grows each time (controller-runtime's `Result{Requeue:
 * true}`).
 */
export function requeue(): Result {
  return REQUEUE;
}

/**
 * Requeues the key after a delay in milliseconds, rounded up, at most 49 days, and resets the retries. An event may
 * enqueue the key earlier.
 *
 * @throws RangeError if the delay is negative or not a number.
 */
export function requeueAfter(milliseconds: number): Result {
  if (!(milliseconds >= 0)) {
    throw new RangeError(`requeueAfter(${milliseconds}): the delay must be 0 or more milliseconds`);
  }
  return { type: "requeue-after", milliseconds: Math.min(Math.ceil(milliseconds), MAX_DELAY_MS) };
}
