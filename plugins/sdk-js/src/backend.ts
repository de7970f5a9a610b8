/**
 * The interface below a {@link Context}: the host implements it in a plugin, the test server in a
 * test. Objects are
 * passed as JSON text. A failed call throws an ApiError.
 */
import type { Kind, ObjectKey } from "./object.ts";
import type { DeleteOptions, Page, WriteOptions } from "./options.ts";

/** The objects of a kind that a list starts from, before its selectors apply. */
export type Selection =
  | { readonly type: "all" }
  | { readonly type: "index"; readonly name: string; readonly value: string }
  | { readonly type: "owner"; readonly uid: string };

/** The parameters of a list. */
export interface ListCall {
  readonly namespace: string | undefined;
  readonly labels: string | undefined;
  readonly fields: string | undefined;
  readonly selection: Selection;
  readonly limit: number | undefined;
  readonly continueToken: string | undefined;
  readonly live: boolean;
  readonly projection: readonly string[];
}

/** The parameters of a patch. */
export interface PatchCall {
  readonly type: "merge" | "json" | "apply";
  readonly body: string;
  readonly subresource: string | undefined;
  readonly force: boolean;
}

/** An Event to record. */
export interface EventCall {
  readonly regarding: Kind;
  readonly key: ObjectKey;
  readonly uid: string | undefined;
  readonly type: EventType;
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** The type of an Event: `Normal` informs, `Warning` needs attention. */
export type EventType = "Normal" | "Warning";

/** A raw request; `query` is percent-encoded. */
export interface RawCall {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly contentType: string | undefined;
  readonly accept: string | undefined;
  readonly body: string | undefined;
  readonly cached: boolean;
}

/** The response to a raw request. */
export interface RawAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly retryAfterSeconds: number | undefined;
  readonly body: string;
}

/**
 * The calls of a reconcile. Every method throws an ApiError if the call fails, except `raw`, `takeWarnings`, `event` and
 * `config`.
 */
export interface Backend {
  get(kind: Kind, key: ObjectKey, live: boolean): string;
  list(kind: Kind, call: ListCall): Page<string>;
  create(kind: Kind, namespace: string | undefined, object: string, options: WriteOptions): string;
  update(kind: Kind, key: ObjectKey, object: string, options: WriteOptions): string;
  updateStatus(kind: Kind, key: ObjectKey, object: string, options: WriteOptions): string;
  patch(kind: Kind, key: ObjectKey, call: PatchCall, options: WriteOptions): string;
  delete(kind: Kind, key: ObjectKey, options: DeleteOptions): void;
  raw(call: RawCall): RawAnswer;
  takeWarnings(): string[];
  event(call: EventCall): void;
  config(): string;
}
