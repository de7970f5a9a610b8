// The state of a stream: a machine without I/O. api/stream.ts drives it.

/** The phase of a stream. */
export type Phase = "connecting" | "open" | "lost" | "failed";

/** The state of a stream. */
export interface Status {
  phase: Phase;
  /** The reason and the message of the failure or the loss. */
  reason?: string;
  message?: string;
}

/** The answer to a request for a stream: a status of HTTP, JSON instead of a stream, or nothing at all. */
export type Answer = { status: number; reason?: string; message?: string } | "json" | "unreachable";

/** The step after a stream broke. `poll` asks again for JSON, where the host has no stream. */
export type Next = { do: "sign-in" } | { do: "retry"; after: number; status: Status } | { do: "poll" };

/** The longest wait before the next attempt, and the wait after a refusal, in milliseconds. */
const LONGEST = 10_000;
const REFUSED = 15_000;

/** Returns the wait before an attempt; the first is at once, for a host that only closed the connection. */
export function backoff(attempt: number, random: number): number {
  const base = Math.min(LONGEST, 250 * 2 ** attempt);
  return Math.round(base * (0.5 + random / 2));
}

/** Decides what follows after the stream ended and a request for it was answered in this way. */
export function afterBreak(answer: Answer, attempt: number, random: number): Next {
  if (answer === "unreachable") {
    return { do: "retry", after: backoff(attempt, random), status: { phase: "lost", message: "The host does not answer." } };
  }
  if (answer === "json") return { do: "poll" };
  if (answer.status === 401) return { do: "sign-in" };
  const text = { ...(answer.reason && { reason: answer.reason }), message: answer.message || `The host answered ${answer.status}.` };
  // Waits for another page of the user to end, not for the host.
  const isFull = answer.reason === "TooManyStreams";
  if ((answer.status === 429 && !isFull) || answer.status >= 500) {
    return { do: "retry", after: backoff(Math.max(attempt, 2), random), status: { phase: "lost", ...text } };
  }
  if (answer.status >= 400) return { do: "retry", after: REFUSED, status: { phase: "failed", ...text } };
  return { do: "retry", after: backoff(attempt, random), status: { phase: attempt === 0 ? "connecting" : "lost" } };
}

/** Returns the state of a stream whose host has lost the API server. */
export function serverLost(message = ""): Status {
  // The host says the same first, and a library adds a link to its documentation.
  const cause = message.replace(/^connection to the API server lost:? ?/, "").replace(/:? https:\S+$/, "");
  return { phase: "lost", message: `The host has no answer from the API server${cause ? `: ${cause}` : ""}.` };
}

/** Returns the worst of the states: what the banner shows. */
export function worst(states: Iterable<Status>): Status {
  let found: Status = { phase: "open" };
  for (const state of states) {
    if (state.phase === "lost") return state;
    if (state.phase === "connecting") found = state;
  }
  return found;
}
