/** The options of reads and writes. All are optional. */
import type { KubernetesObject, ObjectMeta } from "./object.ts";

/** Options of a read. */
export interface ReadOptions {
  /**
   * Reads from the API server instead of the host's shared cache. Cached reads see the plugin's own writes at once.
   */
  readonly live?: boolean;
}

/** Options of a list. By default it returns every object of the kind, with all fields, from the cache. */
export interface ListOptions extends ReadOptions {
  /** The namespace. Default: all namespaces. */
  readonly namespace?: string | undefined;
  /** A label selector in the API server's syntax, or labels that must all match. */
  readonly labels?: string | Readonly<Record<string, string>>;
  /**
   * A field selector in the API server's syntax. Cached reads support `metadata.name` and `metadata.namespace`; other
   * fields need an index, or `live`.
   */
  readonly fields?: string;
  /** An index that the plugin declares, and the value to look up. Excludes `owner` and `live`. */
  readonly index?: { readonly name: string; readonly value: string };
  /** The controlling owner, or its uid. Excludes `index` and `live`. */
  readonly owner?: string | { readonly metadata: ObjectMeta };
  /** The maximum number of objects in a page. `list` reads every page regardless. */
  readonly limit?: number;
  /** The token of the previous page. */
  readonly continueToken?: string;
  /**
   * The fields to return, e.g. `.metadata.labels`, besides apiVersion, kind, name, namespace, uid and resourceVersion.
   * Other fields are absent, even those that the type requires.
   */
  readonly projection?: readonly string[];
}

/** One page of a list. */
export interface Page<T> {
  /** The objects; cached reads are ordered by namespace, then name. */
  readonly items: T[];
  /** The collection's resourceVersion. */
  readonly resourceVersion: string;
  /** The {@link ListOptions.continueToken} of the next page; absent on the last page. */
  readonly continueToken?: string;
}

/** Options of create, update and patch. */
export interface WriteOptions {
  /** Validates and admits the object without storing it. */
  readonly dryRun?: boolean;
  /** The manager that owns the written fields. Default: the plugin's own manager. */
  readonly fieldManager?: string;
  /** Rejects unknown and duplicate fields instead of dropping them. */
  readonly strict?: boolean;
}

/** Options of a patch. */
export interface PatchOptions extends WriteOptions {
  /** The subresource to patch: `status` or `scale`. */
  readonly subresource?: string;
  /** Takes over fields that other managers own. Applies to `apply` patches only. */
  readonly force?: boolean;
}

/** The treatment of the objects that a deleted object owns (metav1.DeletionPropagation). */
export type Propagation = "background" | "foreground" | "orphan";

/** Options of a deletion. If a precondition does not hold, nothing is deleted and the call fails with `conflict`. */
export interface DeleteOptions {
  /** The metadata.uid that the object must have. */
  readonly uid?: string;
  /** The metadata.resourceVersion that the object must have. */
  readonly resourceVersion?: string;
  /** The grace period in seconds; 0 deletes immediately. */
  readonly gracePeriodSeconds?: number;
  /** The treatment of dependents. Default: that of the kind. */
  readonly propagation?: Propagation;
  /** Validates and admits the deletion without deleting. */
  readonly dryRun?: boolean;
}

/** A merge patch of a type: any subset of its fields; `null` removes a field. */
export type MergePatch<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: MergePatch<T[K]> | null }
    : T;

/** One operation of a JSON patch, RFC 6902. Paths are JSON pointers, e.g. `/metadata/labels/old`. */
export type JsonPatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly from: string; readonly path: string };

/** A change to an object, in one of three content types. */
export type Patch<T extends KubernetesObject = KubernetesObject> =
  /** A JSON merge patch, RFC 7386: `null` removes a field, an array replaces the whole array. */
  | { readonly merge: MergePatch<T> }
  /** A JSON patch, RFC 6902. */
  | { readonly json: readonly JsonPatchOperation[] }
  /** Server-side apply: the object with the fields that this plugin owns. */
  | { readonly apply: MergePatch<T> };

/** An HTTP request to the API server, for calls that {@link Context} has no method for. */
export interface RawRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path without a query, e.g. `/apis/apps/v1/namespaces/prod/deployments/web`. */
  readonly path: string;
  /** The query: percent-encoded text without `?`, or parameters, which are encoded. */
  readonly query?: string | Readonly<Record<string, string>>;
  /** The body: a string is sent as is, any other value as JSON. */
  readonly body?: unknown;
  /** The Content-Type header; for a PATCH the patch type. Default: `application/json`. */
  readonly contentType?: string;
  /** The Accept header, a variant of JSON. Default: `application/json`. */
  readonly accept?: string;
  /** Allows the host to answer a GET from its cache. */
  readonly cached?: boolean;
}

/** The response to a raw request. */
export interface RawResponse {
  /** The HTTP status code. */
  readonly status: number;
  readonly contentType: string;
  /** The Retry-After header, in seconds. */
  readonly retryAfterSeconds: number | undefined;
  /** The body as text. */
  readonly body: string;
  /**
   * Parses the body.
   *
   * @throws SyntaxError if the body is not JSON.
   */
  json<T = unknown>(): T;
}
