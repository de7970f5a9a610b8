/**
 * Errors of calls and reconciles. An error that a reconciler throws is retried after the rate limiter's delay, unless
 * it is a {@link TerminalError}.
 */

/** The cause of a failed call: the variants of `types.error` in the contract. */
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
  /** The human-readable reason. */
  readonly message: string;
  /** The field's path, e.g. `spec.replicas`; empty if the cause names none. */
  readonly field: string;
}

/** The API server's metav1.Status of a failed call. */
export interface Status {
  /** The HTTP status code, e.g. 409. */
  readonly code: number;
  /** metav1.StatusReason, e.g. `Conflict`; empty if the server gave none. */
  readonly reason: string;
  /** The human-readable message. */
  readonly message: string;
  readonly causes: readonly Cause[];
  /** The delay before a retry in seconds, if the server gave one. */
  readonly retryAfterSeconds: number | undefined;
}

/** The default code and reason of each kind of error. */
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

/** An error of a call to the API server. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly kind: ApiErrorKind;
  readonly status: Status;

  /** Makes an error. Missing fields of `status` get the defaults of the kind; a string is the message. */
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

  /** The rejected fields, with reasons. */
  get causes(): readonly Cause[] {
    return this.status.causes;
  }

  /** The delay before a retry in seconds, if the server gave one. */
  get retryAfterSeconds(): number | undefined {
    return this.status.retryAfterSeconds;
  }
}

/** Returns the message with the causes that it does not name. Messages of the API server name theirs. */
function messageOf({ code, reason, message, causes }: Status): string {
  const rest = causes.filter((cause) => !message.includes(cause.message));
  const text = message || `the API server responded with ${code} ${reason}`;
  return [text, ...rest.map((cause) => `${cause.field}: ${cause.message}`)].join("; ");
}

/** An error that is not retried. The host reports it and reconciles the key again when the object changes. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
  }
}

/** Reports whether an error is an {@link ApiError}, and of one of these kinds if any are given. */
export function isApiError(error: unknown, ...kinds: ApiErrorKind[]): error is ApiError {
  return error instanceof ApiError && (kinds.length === 0 || kinds.includes(error.kind));
}

/** Reports whether an error says that the object, its namespace or its kind does not exist. */
export function isNotFound(error: unknown): error is ApiError {
  return isApiError(error, "not-found");
}

/** Reports whether an error says that an object of that name exists. */
export function isAlreadyExists(error: unknown): error is ApiError {
  return isApiError(error, "already-exists");
}

/**
 * Reports whether an error is a conflict: the object has changed since it was read, a precondition does not hold, or
 * another manager owns a field.
 */
export function isConflict(error: unknown): error is ApiError {
  return isApiError(error, "conflict");
}

/** Reports whether an error says that the API server rejected the object; `causes` names the fields. */
export function isInvalid(error: unknown): error is ApiError {
  return isApiError(error, "invalid");
}

/** Reports whether an error says that the plugin's ServiceAccount lacks the permission. */
export function isForbidden(error: unknown): error is ApiError {
  return isApiError(error, "forbidden");
}
