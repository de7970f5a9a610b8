/**
 * The manifest of a plugin, as in wit/manifest.schema.json, and the checks that need no cluster. A wrong definition
 * throws a TypeError when the plugin is defined: in a test or in the build.
 */
import { checkKeys } from "./keys.ts";
import type { Kind, KubernetesObject, ObjectKey } from "./object.ts";

/**
 * An event filter: a name, as in controller-runtime's `predicate` package, or a condition on the object by JSONPath
 * (RFC 9535, without functions). Predicates about changes filter updates only: creations and deletions pass.
 *
 * - GenerationChanged: updates that change metadata.generation, as a change of the spec does. Updates of kinds without
 *   a generation (ConfigMap, Secret) never pass.
 * - LabelsChanged, AnnotationsChanged: updates that change them.
 * - ResourceVersionChanged: updates that change metadata.resourceVersion, not the periodic resync.
 * - changed: updates that change the value at the path, e.g. `$.spec.replicas`.
 * - matches: events of objects in which the path selects something. An update is matched by the new object, a deletion
 *   by the last state.
 * - any: events that pass at least one of these. not: events that do not pass this.
 */
export type Predicate =
  | "GenerationChanged"
  | "LabelsChanged"
  | "AnnotationsChanged"
  | "ResourceVersionChanged"
  | { readonly changed: string }
  | { readonly matches: string }
  | { readonly any: readonly Predicate[] }
  | { readonly not: Predicate };

const PREDICATES = ["GenerationChanged", "LabelsChanged", "AnnotationsChanged", "ResourceVersionChanged"];
const MAPPINGS: readonly Mapping["type"][] = ["owner", "same-name", "field-path", "custom"];
const CONDITIONS = ["changed", "matches", "any", "not"];

/** A kind to watch, with filters on its objects and events. */
export interface Source<T extends KubernetesObject = KubernetesObject> {
  readonly kind: Kind<T>;
  /** A label selector, applied by the API server. */
  readonly labels?: string;
  /** A field selector, applied by the API server. */
  readonly fields?: string;
  /** Event filters; an event must pass all of them. */
  readonly predicates?: readonly Predicate[];
  /**
   * The paths of fields that the host's cache leaves out of these objects, e.g. `.status`, to need less memory. A custom
   * mapping gets the objects without them. Reads return whole objects: the API server answers a get, and a list unless
   * its projection needs none of the fields.
   */
  readonly prune?: readonly string[];
  /** Restricts the watch to the Plugin's own namespace. */
  readonly ownNamespace?: boolean;
}

/** A source, or a kind without filters. */
export type SourceLike<T extends KubernetesObject = KubernetesObject> = Kind<T> | Source<T>;

/** A mapping from the event of a watched object to the keys to enqueue. */
export type Mapping =
  /** The controlling owner of the `for` kind; with `all`, every owner of that kind. `owns` is the short form. */
  | { readonly type: "owner"; readonly all?: boolean }
  /** The key with the watched object's own namespace and name. */
  | { readonly type: "same-name" }
  /**
   * The key whose name is at a path of the watched object, e.g. `.spec.claimRef.name`. The namespace is at
   * `namespacePath`, by default that of the watched object.
   */
  | { readonly type: "field-path"; readonly path: string; readonly namespacePath?: string }
  /**
   * The keys that a function returns, at most 1,000 (controller-runtime's `EnqueueRequestsFromMapFunc`). It is called
   * with the object, after an update also with the old state, and after a deletion with the last state. It cannot read
   * other objects.
   */
  | { readonly type: "custom"; keys(object: KubernetesObject): readonly ObjectKey[] };

/** A kind to watch, and the mapping from its events to keys. */
export interface Watch {
  readonly source: SourceLike;
  readonly map: Mapping;
}

/**
 * The rate limiter of failed and requeued keys: the maximum of a per-key exponential backoff and a token bucket over
 * all keys. The defaults are client-go's.
 */
export interface RateLimiter {
  /** The first delay of a key in milliseconds, doubled with each failure. Default: 5. */
  readonly baseDelayMs?: number;
  /** The longest delay of a key in milliseconds. Default: 1,000,000. */
  readonly maxDelayMs?: number;
  /** Requeues per second of all keys together. Default: 10. */
  readonly qps?: number;
  /** Requeues in a burst. Default: 100. */
  readonly burst?: number;
}

/** An index over the cached objects of a kind, for `ListOptions.index`: by a field, a label, or the owner. */
export type Index = {
  readonly name: string;
  readonly kind: Kind;
} & (
  | {
      /** The path of the indexed value, a string, number or boolean, e.g. `.spec.nodeName`. */
      readonly path: string;
    }
  | {
      /**
       * The name of the label whose value is indexed, e.g. `app.kubernetes.io/name`. Cached lists whose label selector
       * requires one value of that label use the index, too.
       */
      readonly label: string;
    }
  | {
      /** The indexed value is the name of the controlling owner, if it is of this kind. */
      readonly controller: Kind;
    }
);

/** The declaration of a controller, without its reconcile function. */
export interface Watches<T extends KubernetesObject> {
  /** A DNS label, unique within the plugin. */
  readonly name: string;
  /** The kind to reconcile: each of its events enqueues the object's own key. */
  readonly for: SourceLike<T>;
  /** Kinds whose objects this controller creates: their events enqueue the controlling owner. */
  readonly owns?: readonly SourceLike[];
  /** Other kinds whose events enqueue keys by a mapping. */
  readonly watches?: readonly Watch[];
  /**
   * The finalizers that the controller puts on the objects that it reconciles, e.g. by `finalizer`. With them,
   * `operetta generate rbac` grants the verbs `update` and `patch` on the kind.
   */
  readonly finalizers?: readonly string[];
  /** The number of concurrent reconciles, 1 to 64. Default: 1. A key is never reconciled twice at a time. */
  readonly workers?: number;
  /** The interval in seconds after which every key is enqueued again. Default: never. */
  readonly resyncSeconds?: number;
  readonly rateLimiter?: RateLimiter;
  /** Restricts every source to the Plugin's own namespace. */
  readonly ownNamespace?: boolean;
  /** Event filters on every source (controller-runtime's `WithEventFilter`). */
  readonly eventFilters?: readonly Predicate[];
}

/**
 * Returns the manifest that the host reads.
 *
 * @throws TypeError if the definition is wrong.
 */
export function manifestOf(controllers: readonly Watches<KubernetesObject>[], indexes: readonly Index[]): object {
  if (controllers.length === 0) {
    throw new TypeError("a plugin needs at least one controller");
  }
  unique("controller", controllers);
  unique("index", indexes);
  return {
    apiVersion: "operetta.dev/v1alpha1",
    kind: "Manifest",
    controllers: controllers.map(controllerManifest),
    ...(indexes.length > 0 && { indexes: indexes.map(indexManifest) }),
  };
}

function controllerManifest(controller: Watches<KubernetesObject>): object {
  const { name, owns = [], watches = [], finalizers = [], rateLimiter } = controller;
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) {
    throw new TypeError(`the controller name ${JSON.stringify(name)} is not a DNS label: use a-z, 0-9 and -`);
  }
  checkKeys(controller, "controller", `controller ${JSON.stringify(name)}`);
  const at = (field: string) => `controller ${JSON.stringify(name)}: ${field}`;
  const source = (like: SourceLike, field: string) => sourceManifest(like, controller, at(field));
  return {
    name,
    for: source(controller.for, "for"),
    ...(owns.length > 0 && { owns: owns.map((owned, i) => source(owned, `owns[${i}]`)) }),
    ...(watches.length > 0 && {
      watches: watches.map((watch, i) => {
        checkKeys(watch, "watch", at(`watches[${i}]`));
        return {
          source: source(watch.source, `watches[${i}].source`),
          map: mappingManifest(watch.map, at(`watches[${i}].map`)),
        };
      }),
    }),
    ...(finalizers.length > 0 && { finalizers }),
    workers: whole(controller.workers ?? 1, 1, 64, at("workers")),
    resyncSeconds: whole(controller.resyncSeconds ?? 0, 0, MAX_U32, at("resyncSeconds")),
    ...(rateLimiter && { rateLimiter: rateLimiterManifest(rateLimiter, at("rateLimiter")) }),
  };
}

function sourceManifest(like: SourceLike, controller: Watches<KubernetesObject>, at: string): object {
  const source: Source = isSource(like) ? like : { kind: like };
  const { apiVersion, kind } = source.kind ?? {};
  if (!apiVersion || !kind) {
    throw new TypeError(`${at} is neither a kind nor a source: make one with kind("group/version", "Kind")`);
  }
  if (isSource(like)) {
    checkKeys(like, "source", at);
  }
  const predicates = [...new Set([...(source.predicates ?? []), ...(controller.eventFilters ?? [])])];
  predicates.forEach((predicate) => checkPredicate(predicate, at));
  const prune = (source.prune ?? []).map((path) => fieldPath(path, `${at}.prune`));
  return {
    apiVersion,
    kind,
    ...((source.ownNamespace || controller.ownNamespace) && { namespaces: "Own" }),
    ...(source.labels && { labelSelector: source.labels }),
    ...(source.fields && { fieldSelector: source.fields }),
    ...(predicates.length > 0 && { predicates }),
    ...(prune.length > 0 && { prune }),
  };
}

/** Checks the form of a predicate. The host checks the paths. */
function checkPredicate(predicate: Predicate, at: string): void {
  if (typeof predicate === "string" && PREDICATES.includes(predicate)) {
    return;
  }
  const fields = predicate !== null && typeof predicate === "object" ? Object.entries(predicate) : [];
  const [name, value] = fields[0] ?? [];
  if (fields.length !== 1 || !CONDITIONS.includes(name ?? "")) {
    const known = [...PREDICATES, ...CONDITIONS.map((condition) => `{${condition}: …}`)].join(", ");
    throw new TypeError(`${at}: unknown predicate ${JSON.stringify(predicate)}; the predicates are ${known}`);
  }
  if (name === "any") {
    (value as readonly Predicate[]).forEach((one) => checkPredicate(one, at));
  } else if (name === "not") {
    checkPredicate(value as Predicate, at);
  }
}

function isSource<T extends KubernetesObject>(like: SourceLike<T>): like is Source<T> {
  return typeof like?.kind === "object";
}

/** Returns the kind of a source. */
export function kindOfSource<T extends KubernetesObject>(like: SourceLike<T>): Kind<T> {
  return isSource(like) ? like.kind : like;
}

function mappingManifest(map: Mapping, at: string): object {
  if (MAPPINGS.includes(map.type)) {
    checkKeys(map, map.type, at);
  }
  switch (map.type) {
    case "owner":
      return { type: "Owner", allOwners: map.all ?? false };
    case "same-name":
      return { type: "SameName" };
    case "field-path": {
      const { path, namespacePath } = map;
      return { type: "FieldPath", path: fieldPath(path, at), ...(namespacePath && { namespacePath }) };
    }
    case "custom":
      if (typeof map.keys !== "function") {
        throw new TypeError(`${at}: \`keys\` is no function`);
      }
      return { type: "Custom" };
    default:
      throw new TypeError(`${at}: unknown mapping ${JSON.stringify((map as Mapping).type)}`);
  }
}

const MAX_U32 = 0xffff_ffff;

function rateLimiterManifest(limiter: RateLimiter, at: string): object {
  checkKeys(limiter, "rateLimiter", at);
  const { baseDelayMs = 5, maxDelayMs = 1_000_000, qps = 10, burst = 100 } = limiter;
  return {
    baseDelayMs: whole(baseDelayMs, 0, MAX_U32, `${at}.baseDelayMs`),
    maxDelayMs: whole(maxDelayMs, 0, MAX_U32, `${at}.maxDelayMs`),
    qps: whole(qps, 1, MAX_U32, `${at}.qps`),
    burst: whole(burst, 1, MAX_U32, `${at}.burst`),
  };
}

function indexManifest(index: Index): object {
  const { name, kind } = index;
  if (!name) {
    throw new TypeError("an index has no name");
  }
  checkKeys(index, "index", `index ${JSON.stringify(name)}`);
  const common = { name, apiVersion: kind.apiVersion, kind: kind.kind };
  if ("controller" in index) {
    const { apiVersion, kind } = index.controller;
    return { ...common, controller: { apiVersion, kind } };
  }
  if ("label" in index) {
    return { ...common, label: index.label };
  }
  return { ...common, path: fieldPath(index.path, `index ${JSON.stringify(name)}`) };
}

function fieldPath(path: string, at: string): string {
  if (!path?.startsWith(".")) {
    throw new TypeError(`${at}: the path ${JSON.stringify(path)} must begin with a dot, e.g. ".spec.nodeName"`);
  }
  return path;
}

function whole(value: number, min: number, max: number, at: string): number {
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new TypeError(`${at} is ${value}; it must be a whole number from ${min} to ${max}`);
  }
  return value;
}

function unique(what: string, named: readonly { readonly name: string }[]): void {
  const names = new Set<string>();
  for (const { name } of named) {
    if (names.has(name)) {
      throw new TypeError(`duplicate ${what} name ${JSON.stringify(name)}`);
    }
    names.add(name);
  }
}
