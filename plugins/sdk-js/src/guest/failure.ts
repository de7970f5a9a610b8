/** Conversion of thrown errors to failures of the contract. */
import { ApiError, TerminalError } from "../errors.ts";
import { writeLog } from "./console.ts";
import { locationOf, stackOf } from "./stack.ts";

/** The contract's `failure`. */
export interface Failure {
  readonly tag: "retry" | "terminal";
  readonly val: string;
}

/** Errors of the language, whose messages need the name of the error. */
const LANGUAGE_ERRORS = ["EvalError", "InternalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError"];

/**
 * Converts a thrown value to a failure. Its text is the error's message; errors to be retried also name the source
 * line. The stack of an error that is neither a TerminalError nor an ApiError goes to the log.
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
  const location = locationOf(thrown);
  return { tag: "retry", val: location ? `${text}, at ${location}` : text };
}

/** Returns an error's message, with its causes. */
export function textOf(error: Error): string {
  const { name, message } = error;
  const text = LANGUAGE_ERRORS.includes(name) ? `${name}: ${message}` : message || name;
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
