/**
 * Why a call or a reconcile failed. Any error that a reconciler throws is retried with the rate limiter's delay, but a
 * {@link TerminalError}.
 */

/** Why a call failed, as a reconciler branches on it: the variants of `types.error` in the contract. */
export type ApiErrorKind =
  | "not-found"
  | "already-exists"
  | "conflict"
  | "invalid"
  | "bad-request"
  | "forbidden"
  | "expired"
  | "too-many-requests"
  | "unavailable"
  | "timed-out"
  | "other";

/** One field that the API server rejected (an entry of metav1.Status' `details.causes`). */
export interface Cause {
  /** metav1.CauseType, e.g. `FieldValueInvalid`. */
  readonly reason: string;
  /** The reason for people. */
  readonly message: string;
  /** The field's path, e.g. `spec.replicas`; empty when the cause names none. */
  readonly field: string;
}

/** The API server's metav1.Status of a failed call. */
export interface Status {
  /** The HTTP status code, e.g. 409. */
  readonly code: number;
  /** metav1.StatusReason, e.g. `Conflict`; empty when the server named none. */
  readonly reason: string;
  /** The message for people. */
  readonly message: string;
  readonly causes: readonly Cause[];
  /** When to come back, in seconds, if the server said so. */
  readonly retryAfterSeconds: number | undefined;
}

/** The code and reason that belong to a kind of error. */
const USUAL: Record<ApiErrorKind, readonly [number, string]> = {
  "not-found": [404, "NotFound"],
  "already-exists": [409, "AlreadyExists"],
  conflict: [409, "Conflict"],
  invalid: [422, "Invalid"],
  "bad-request": [400, "BadRequest"],
  forbidden: [403, "Forbidden"],
  expired: [410, "Expired"],
  "too-many-requests": [429, "TooManyRequests"],
  unavailable: [503, "ServiceUnavailable"],
  "timed-out": [504, "Timeout"],
  other: [500, "InternalError"],
};

/** A call to the API server that failed. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly kind: ApiErrorKind;
  readonly status: Status;

  /** `status` may leave out what follows from the kind. */
  constructor(kind: ApiErrorKind, status: Partial<Status> | string = {}) {
    const given = typeof status === "string" ? { message: status } : status;
    const [code, reason] = USUAL[kind];
    const whole: Status = { code, reason, message: "", causes: [], retryAfterSeconds: undefined, ...given };
    super(messageOf(whole));
    this.kind = kind;
    this.status = whole;
  }

  /** The HTTP status code. */
  get code(): number {
    return this.status.code;
  }

  /** metav1.StatusReason. */
  get reason(): string {
    return this.status.reason;
  }

  /** Which fields were rejected, and why. */
  get causes(): readonly Cause[] {
    return this.status.causes;
  }

  /** When to come back, in seconds, if the server said so. */
  get retryAfterSeconds(): number | undefined {
    return this.status.retryAfterSeconds;
  }
}

/** The server's own message names its causes; one that the host wrote may not. */
function messageOf({ code, reason, message, causes }: Status): string {
  const rest = causes.filter((cause) => !message.includes(cause.message));
  const text = message || `the API server answered ${code} ${reason}`;
  return [text, ...rest.map((cause) => `${cause.field}: ${cause.message}`)].join("; ");
}

/** An error that no retry can cure: it is reported, and the key is left alone until its object changes. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
  }
}

/** Whether an error is the API server's answer, of one of these kinds if any are named. */
export function isApiError(error: unknown, ...kinds: ApiErrorKind[]): error is ApiError {
  return error instanceof ApiError && (kinds.length === 0 || kinds.includes(error.kind));
}

/** The object does not exist (or its namespace, or its kind). */
export function isNotFound(error: unknown): error is ApiError {
  return isApiError(error, "not-found");
}

/** An object of that name exists. */
export function isAlreadyExists(error: unknown): error is ApiError {
  return isApiError(error, "already-exists");
}

/** The object has changed since it was read, a precondition does not hold, or another manager owns a field. */
export function isConflict(error: unknown): error is ApiError {
  return isApiError(error, "conflict");
}

/** The API server rejected the object; `causes` says by which fields. */
export function isInvalid(error: unknown): error is ApiError {
  return isApiError(error, "invalid");
}

/** The plugin's ServiceAccount may not do this. */
export function isForbidden(error: unknown): error is ApiError {
  return isApiError(error, "forbidden");
}
