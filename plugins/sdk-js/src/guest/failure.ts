/** What becomes of what a reconciler throws: a failure for the host, and the stack in the log. */
import { ApiError, TerminalError } from "../errors.ts";
import { writeLog } from "./console.ts";
import { placeOf, stackOf } from "./stack.ts";

/** The contract's `failure`. */
export interface Failure {
  readonly tag: "retry" | "terminal";
  readonly val: string;
}

/** Errors by which the language itself complains: the name says what no message does. */
const OF_THE_LANGUAGE = ["EvalError", "InternalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError"];

/**
 * Makes a failure of anything thrown. A terminal error is told by its message alone, anything else with the place that
 * it came from. The stack of what is neither a terminal error nor the API server's answer goes to the log.
 */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof Error)) {
    return { tag: "retry", val: `a value was thrown that is no Error: ${shown(thrown)}` };
  }
  const text = textOf(thrown);
  if (thrown instanceof TerminalError) {
    return { tag: "terminal", val: text };
  }
  if (!(thrown instanceof ApiError)) {
    writeLog("error", [`the reconciler threw: ${text}`, { stack: stackOf(thrown) }]);
  }
  const place = placeOf(thrown);
  return { tag: "retry", val: place ? `${text}, at ${place}` : text };
}

function textOf(error: Error): string {
  const { name, message } = error;
  const text = OF_THE_LANGUAGE.includes(name) ? `${name}: ${message}` : message || name;
  if (error.cause === undefined) {
    return text;
  }
  return `${text}: ${error.cause instanceof Error ? textOf(error.cause) : shown(error.cause)}`;
}

function shown(value: unknown): string {
  try {
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  } catch {
    return typeof value;
  }
}
