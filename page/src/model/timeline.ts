// Reconciles as bars over time, a lane for each controller.

import type { Reconcile } from "../api/types.ts";

/** A bar; `x` and `width` are parts of the whole, from 0 to 1. */
export interface Bar {
  reconcile: Reconcile;
  lane: number;
  x: number;
  width: number;
}

/** The bars and their lanes. */
export interface Timeline {
  lanes: string[];
  bars: Bar[];
  /** The begin and the end, in milliseconds since 1970. */
  from: number;
  to: number;
}

/** Lays out reconciles up to the time `now`. */
export function timeline(reconciles: Reconcile[], now: number): Timeline {
  const lanes = [...new Set(reconciles.map((reconcile) => reconcile.controller))].sort();
  const from = Math.min(now - 1000, ...reconciles.map(({ started }) => started));
  const to = Math.max(now, ...reconciles.map(({ started, tookMicros }) => started + tookMicros / 1000));
  const span = to - from;
  const bars = reconciles.map((reconcile) => ({
    reconcile,
    lane: lanes.indexOf(reconcile.controller),
    x: (reconcile.started - from) / span,
    width: reconcile.tookMicros / 1000 / span,
  }));
  return { lanes, bars, from, to };
}
