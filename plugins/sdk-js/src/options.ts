/** The options of reads and writes. Left out, each does the plain thing. */
import type { KubernetesObject, ObjectMeta } from "./object.ts";

/** Where a read is served from. */
export interface ReadOptions {
  /**
   * One request to the API server instead of the host's shared cache. A cached read never misses what this plugin
   * wrote.
   */
  readonly live?: boolean;
}

/** Which objects a list returns: every object of the kind, whole, from the cache, unless said otherwise. */
export interface ListOptions extends ReadOptions {
  /** One namespace; all of them if left out. */
  readonly namespace?: string | undefined;
  /** Only those that a label selector chooses: in the API server's syntax, or as labels that must all be there. */
  readonly labels?: string | Readonly<Record<string, string>>;
  /**
   * Only those that a field selector chooses, in the API server's syntax. Cached reads know `metadata.name` and
   * `metadata.namespace`; other fields need an index, or `live`.
   */
  readonly fields?: string;
  /** Only those with this value in an index that the plugin declares. Not with `owner` or `live`. */
  readonly index?: { readonly name: string; readonly value: string };
  /** Only those whose controlling owner is this object, or has this uid. Not with `index` or `live`. */
  readonly owner?: string | { readonly metadata: ObjectMeta };
  /** At most this many objects in one page. `list` reads every page all the same. */
  readonly limit?: number;
  /** The page after the one that gave this token. */
  readonly continueToken?: string;
  /**
   * Only these fields of each object, e.g. `.metadata.labels`; apiVersion, kind, name, namespace, uid and
   * resourceVersion come always. The others are absent, whatever the type says.
   */
  readonly projection?: readonly string[];
}

/** One page of a list. */
export interface Page<T> {
  /** The objects; cached reads come in the order of namespace, then name. */
  readonly items: T[];
  /** The collection's resourceVersion. */
  readonly resourceVersion: string;
  /** For {@link ListOptions.continueToken}; absent on the last page. */
  readonly continueToken?: string;
}

/** Options of create, update and patch. */
export interface WriteOptions {
  /** Validate and admit, but store nothing. */
  readonly dryRun?: boolean;
  /** Who owns the fields written; the plugin's own manager if left out. */
  readonly fieldManager?: string;
  /** Reject unknown and duplicate fields instead of dropping them. */
  readonly strict?: boolean;
}

/** Options of a patch. */
export interface PatchOptions extends WriteOptions {
  /** Patch this part of the object: `status` or `scale`. */
  readonly subresource?: string;
  /** Take over fields from other managers; counts for `apply` only. */
  readonly force?: boolean;
}

/** What becomes of the objects that a deleted one owns (metav1.DeletionPropagation). */
export type Propagation = "background" | "foreground" | "orphan";

/** Options of a deletion. When a precondition does not hold, nothing is deleted and the call fails with `conflict`. */
export interface DeleteOptions {
  /** Only the object with this metadata.uid. */
  readonly uid?: string;
  /** Only the object at this metadata.resourceVersion. */
  readonly resourceVersion?: string;
  /** How long the object may take to end, in seconds; 0 ends it at once. */
  readonly gracePeriodSeconds?: number;
  /** The kind's default if left out. */
  readonly propagation?: Propagation;
  /** Validate and admit, but delete nothing. */
  readonly dryRun?: boolean;
}

/** A merge patch of a type: any of its fields, and `null` to remove one. */
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
  /** Server-side apply: the object, with only the fields that this plugin wants to own. */
  | { readonly apply: MergePatch<T> };

/** A request as HTTP has it, for what the other calls do not cover. */
export interface RawRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Without a query, e.g. `/apis/apps/v1/namespaces/prod/deployments/web`. */
  readonly path: string;
  /** The query: percent-encoded text without its `?`, or its parameters, which are encoded. */
  readonly query?: string | Readonly<Record<string, string>>;
  /** Text as it is; anything else is written as JSON. */
  readonly body?: unknown;
  /** Of a PATCH its patch type; `application/json` if left out. */
  readonly contentType?: string;
  /** What to answer with; `application/json` if left out. Only forms of JSON are taken. */
  readonly accept?: string;
  /** Whether a GET may be answered from the host's cache. */
  readonly cached?: boolean;
}

/** What came back of a raw request. */
export interface RawResponse {
  /** The HTTP status code. */
  readonly status: number;
  readonly contentType: string;
  /** The Retry-After header, in seconds. */
  readonly retryAfterSeconds: number | undefined;
  /** The body as text. */
  readonly body: string;
  /** The body as a value. Throws a SyntaxError if it is not JSON. */
  json<T = unknown>(): T;
}
