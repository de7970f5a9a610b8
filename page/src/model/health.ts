// States as one of four healths, which have a shape and a word each: colour alone never carries a state.

import type { Health } from "../api/types.ts";

/** Returns the health of a Plugin's state. */
export function pluginHealth(state: string, needsAttention = false): Health {
  if (state === "Running") return needsAttention ? "progressing" : "ok";
  if (state === "Degraded" || state === "Failed") return "bad";
  if (state === "Paused") return "unknown";
  return needsAttention ? "bad" : "progressing";
}

/** The conditions that are bad when they are true. */
const NEGATIVE = /(Failure|Failed|Pressure|Unavailable|Stalled|Degraded|Throttled|Conflict|Error|Unready|NotReady)$/;

/** Returns the health of a condition. */
export function conditionHealth(type: string, status: string): Health {
  if (status !== "True" && status !== "False") return "unknown";
  const good = NEGATIVE.test(type) ? "False" : "True";
  if (status === good) return "ok";
  return type === "Progressing" || type === "Reconciling" ? "unknown" : "bad";
}

/** Returns the health of a log level. */
export function levelHealth(level: string): Health {
  return level === "error" ? "bad" : level === "warn" ? "progressing" : "unknown";
}

/** The word for a health. */
export const HEALTH_WORDS: Record<Health, string> = { ok: "Healthy", progressing: "Progressing", bad: "Unhealthy", unknown: "Unknown" };
