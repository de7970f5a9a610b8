/** The objects of a test cluster, with the API server's semantics of writes. */
import { isDeepStrictEqual } from "node:util";

import { encodeBase64 } from "../base64.ts";
import { ApiError } from "../errors.ts";
import { describeKind, groupOf, type Kind, type ObjectKey } from "../object.ts";
import type { DeleteOptions } from "../options.ts";
import { isObject, type Json, type JsonObject } from "./patches.ts";

/** Built-in kinds without a status subresource and without a generation. */
const PLAIN = [
  "ConfigMap",
  "Secret",
  "ServiceAccount",
  "Endpoints",
  "EndpointSlice",
  "Event",
  "LimitRange",
  "PodTemplate",
  "Role",
  "RoleBinding",
  "ClusterRole",
  "ClusterRoleBinding",
  "StorageClass",
  "Lease",
];

/** The API groups of Kubernetes that accept updates without a resourceVersion. */
const BUILT_IN = [
  "",
  "apps",
  "batch",
  "autoscaling",
  "policy",
  "networking.k8s.io",
  "rbac.authorization.k8s.io",
  "storage.k8s.io",
];

/** The metadata fields that only the API server sets. */
const SYSTEM = [
  "uid",
  "resourceVersion",
  "creationTimestamp",
  "generation",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
];

/** A stored object. */
export type StoredObject = JsonObject & { metadata: JsonObject };

const idOf = ({ apiVersion, kind }: Kind, { namespace = "", name }: ObjectKey) =>
  [apiVersion, kind, namespace, name].join("\0");
const kindId = ({ apiVersion, kind }: Kind) => `${apiVersion}\0${kind}`;
const isBuiltIn = ({ apiVersion }: Kind) => BUILT_IN.includes(groupOf(apiVersion));
const isPlain = (kind: Kind) => isBuiltIn(kind) && PLAIN.includes(kind.kind);

/** A store of objects. Each has a name, uid, resourceVersion and creationTimestamp. The store keeps copies. */
export class Store {
  #objects = new Map<string, StoredObject>();
  /** The last resourceVersion; also the clock, in seconds, and the last uid. */
  #version = 0;
  readonly #noStatus = new Set<string>();

  /** Returns a function that restores the current state, for a dry run. */
  snapshot(): () => void {
    const [objects, version] = [new Map(this.#objects), this.#version];
    return () => {
      this.#objects = objects;
      this.#version = version;
    };
  }

  setNoStatus(kind: Kind): void {
    this.#noStatus.add(kindId(kind));
  }

  get version(): string {
    return String(this.#version);
  }

  /** Adds an object unchanged. */
  seed(kind: Kind, key: ObjectKey, given: Json): void {
    if (this.#objects.has(idOf(kind, key))) {
      throw alreadyExists(kind, key);
    }
    this.#objects.set(idOf(kind, key), this.#stamp(kind, read(kind, key, given), true));
  }

  has(kind: Kind, key: ObjectKey): boolean {
    return this.#objects.has(idOf(kind, key));
  }

  get(kind: Kind, key: ObjectKey): StoredObject {
    const object = this.#objects.get(idOf(kind, key));
    if (!object) {
      throw new ApiError("not-found", `${described(kind, key)} not found`);
    }
    return object;
  }

  /** Returns the objects of a kind, ordered by namespace, then name. */
  ofKind(kind: Kind): StoredObject[] {
    const prefix = `${kindId(kind)}\0`;
    return [...this.#objects.entries()]
      .filter(([id]) => id.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object);
  }

  create(kind: Kind, namespace: string | undefined, given: Json): StoredObject {
    const name = isObject(given) && isObject(given["metadata"]) ? given["metadata"]["name"] : undefined;
    if (typeof name !== "string" || name === "") {
      throw unsupported("generateName");
    }
    const key = { namespace, name };
    const object = read(kind, key, given);
    if (object.metadata["resourceVersion"]) {
      throw new ApiError("other", "resourceVersion should not be set on objects to be created");
    }
    for (const field of ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"]) {
      delete object.metadata[field];
    }
    if (this.#objects.has(idOf(kind, key))) {
      throw alreadyExists(kind, key);
    }
    if (this.#hasStatus(kind)) {
      delete object["status"];
    }
    const stamped = this.#stamp(kind, object, false);
    this.#objects.set(idOf(kind, key), stamped);
    return stamped;
  }

  /** Replaces an object without its status, or only its status. */
  update(kind: Kind, key: ObjectKey, given: Json, part: "main" | "status"): StoredObject {
    const old = this.get(kind, key);
    const object = read(kind, key, given);
    if (part === "status" && !this.#hasStatus(kind)) {
      throw new ApiError("not-found", `${describeKind(kind)} has no status subresource`);
    }
    checkCurrent(kind, key, old, object);
    let next: StoredObject;
    if (part === "status") {
      next = withMember(old, "status", object["status"]);
    } else {
      next = this.#hasStatus(kind) ? withMember(object, "status", old["status"]) : object;
    }
    const metadata: JsonObject = { ...next.metadata };
    for (const field of SYSTEM) {
      delete metadata[field];
      if (old.metadata[field] !== undefined) {
        metadata[field] = old.metadata[field];
      }
    }
    next = { ...next, metadata };
    checkFinalizers(kind, key, old, next);
    if (isDeepStrictEqual(next, old)) {
      return old;
    }
    const changes = !isPlain(kind) && !isDeepStrictEqual(this.#desired(kind, old), this.#desired(kind, next));
    return this.#put(kind, key, changes ? bumpGeneration(next) : next);
  }

  delete(kind: Kind, key: ObjectKey, options: DeleteOptions): void {
    if (options.propagation === "foreground" || options.propagation === "orphan") {
      throw unsupported("foreground and orphan deletion");
    }
    const object = this.get(kind, key);
    for (const field of ["uid", "resourceVersion"] as const) {
      const [wanted, actual] = [options[field], object.metadata[field]];
      if (wanted !== undefined && wanted !== actual) {
        const why = `Precondition failed: ${field} in precondition: ${wanted}, in object meta: ${String(actual)}`;
        throw conflict(kind, key, why);
      }
    }
    if (finalizers(object).length === 0) {
      this.#version += 1;
      this.#objects.delete(idOf(kind, key));
    } else if (!object.metadata["deletionTimestamp"]) {
      const metadata = { ...object.metadata, deletionTimestamp: this.#now(), deletionGracePeriodSeconds: 0 };
      const deleted = { ...object, metadata };
      this.#put(kind, key, isPlain(kind) ? deleted : bumpGeneration(deleted));
    }
  }

  #hasStatus(kind: Kind): boolean {
    return !isPlain(kind) && !this.#noStatus.has(kindId(kind));
  }

  /** Sets the system fields of a new object; `keep` preserves those that are set. */
  #stamp(kind: Kind, object: StoredObject, keep: boolean): StoredObject {
    this.#version += 1;
    const system: JsonObject = {
      uid: `00000000-0000-4000-8000-${String(this.#version).padStart(12, "0")}`,
      resourceVersion: String(this.#version),
      creationTimestamp: this.#now(),
      ...(!isPlain(kind) && { generation: 1 }),
    };
    const metadata = keep ? { ...system, ...object.metadata } : { ...object.metadata, ...system };
    return { ...object, metadata };
  }

  /** Returns the time of a clock that advances with each write and is the same in each run. */
  #now(): string {
    return new Date(Date.UTC(2030, 0, 1) + this.#version * 1000).toISOString().replace(".000Z", "Z");
  }

  /** Stores a new version of an object. Removes an object that is being deleted and has no finalizers. */
  #put(kind: Kind, key: ObjectKey, object: StoredObject): StoredObject {
    this.#version += 1;
    const next = { ...object, metadata: { ...object.metadata, resourceVersion: this.version } };
    if (next.metadata["deletionTimestamp" as keyof typeof next.metadata] && finalizers(next).length === 0) {
      this.#objects.delete(idOf(kind, key));
    } else {
      this.#objects.set(idOf(kind, key), next);
    }
    return next;
  }

  /** Returns the part of an object whose changes increase the generation. */
  #desired(kind: Kind, { metadata: _metadata, ...rest }: StoredObject): JsonObject {
    if (this.#hasStatus(kind)) {
      const { status: _status, ...desired } = rest as JsonObject;
      return desired;
    }
    return rest as JsonObject;
  }
}

/** Copies an object, and checks it against the kind and key of the request. */
function read(kind: Kind, key: ObjectKey, given: Json): StoredObject {
  const bad = (message: string) => new ApiError("bad-request", message);
  if (!isObject(given)) {
    throw bad("the request is not a JSON object");
  }
  const object = withoutNulls(structuredClone(given), isBuiltIn(kind), "") as JsonObject;
  if (object["apiVersion"] !== kind.apiVersion || object["kind"] !== kind.kind) {
    const other = `${String(object["apiVersion"])} ${String(object["kind"])}`;
    throw bad(`the object is a ${other}, the request is about a ${describeKind(kind)}`);
  }
  const metadata = isObject(object["metadata"]) ? object["metadata"] : {};
  if (metadata["namespace"] && metadata["namespace"] !== key.namespace) {
    throw bad("the namespace of the provided object does not match the namespace sent on the request");
  }
  if (metadata["name"] !== key.name) {
    throw bad(`the name of the object (${String(metadata["name"])}) does not match the name on the URL (${key.name})`);
  }
  if (key.namespace) {
    metadata["namespace"] = key.namespace;
  }
  return { ...plainToData(kind, object), metadata };
}

/**
 * Removes nulls, which built-in kinds read as absent fields. Rejects them in custom resources, where the schema
 * decides.
 */
function withoutNulls(value: Json, builtIn: boolean, path: string): Json {
  if (Array.isArray(value)) {
    return value.map((item) => withoutNulls(item, builtIn, `${path}[]`));
  }
  if (!isObject(value)) {
    return value;
  }
  const members = Object.entries(value).filter(([name, inner]) => {
    if (inner === null && !builtIn && !path.startsWith(".metadata")) {
      throw unsupported(`null at ${path}.${name} (leave the field out, or undefined)`);
    }
    return inner !== null;
  });
  return Object.fromEntries(members.map(([name, inner]) => [name, withoutNulls(inner, builtIn, `${path}.${name}`)]));
}

/** Writes a Secret's stringData into its data. */
function plainToData(kind: Kind, object: JsonObject): JsonObject {
  const { stringData, ...rest } = object;
  if (kindId(kind) !== kindId({ apiVersion: "v1", kind: "Secret" }) || !isObject(stringData)) {
    return object;
  }
  const encoded = Object.entries(stringData).map(([name, text]) => [name, encodeBase64(String(text))]);
  return { ...rest, data: { ...(isObject(rest["data"]) && rest["data"]), ...Object.fromEntries(encoded) } };
}

/** Checks the uid and resourceVersion of an update against the stored object. */
function checkCurrent(kind: Kind, key: ObjectKey, old: StoredObject, given: StoredObject): void {
  const { uid, resourceVersion } = given.metadata;
  if (uid && uid !== old.metadata["uid"]) {
    throw conflict(kind, key, `Precondition failed: UID in precondition: ${String(uid)}`);
  }
  if (!resourceVersion && !isBuiltIn(kind)) {
    throw invalid(kind, key, "metadata.resourceVersion", "must be specified for an update");
  }
  if (resourceVersion && resourceVersion !== old.metadata["resourceVersion"]) {
    const why = "the object has been modified; please apply your changes to the latest version and try again";
    throw conflict(kind, key, why);
  }
}

function checkFinalizers(kind: Kind, key: ObjectKey, old: StoredObject, next: StoredObject): void {
  const late = finalizers(next).some((name) => !finalizers(old).includes(name));
  if (old.metadata["deletionTimestamp"] && late) {
    throw invalid(kind, key, "metadata.finalizers", "no new finalizers can be added if the object is being deleted");
  }
}

function finalizers(object: StoredObject): Json[] {
  const { finalizers } = object.metadata;
  return Array.isArray(finalizers) ? finalizers : [];
}

function bumpGeneration(object: StoredObject): StoredObject {
  const generation = Number(object.metadata["generation"] ?? 0) + 1;
  return { ...object, metadata: { ...object.metadata, generation } };
}

function withMember(object: StoredObject, name: string, value: Json | undefined): StoredObject {
  const { [name]: _old, ...rest } = object as JsonObject;
  return (value === undefined ? rest : { ...rest, [name]: value }) as StoredObject;
}

/** Formats an object for messages, e.g. `Foo.example.com "name"`. */
function described({ apiVersion, kind }: Kind, { name }: ObjectKey): string {
  const group = groupOf(apiVersion);
  return `${group ? `${kind}.${group}` : kind} ${JSON.stringify(name)}`;
}

function alreadyExists(kind: Kind, key: ObjectKey): ApiError {
  return new ApiError("already-exists", `${described(kind, key)} already exists`);
}

function conflict(kind: Kind, key: ObjectKey, why: string): ApiError {
  return new ApiError("conflict", `Operation cannot be fulfilled on ${described(kind, key)}: ${why}`);
}

/** Returns an `invalid` error with one cause. */
export function invalid(kind: Kind, key: ObjectKey, field: string, why: string): ApiError {
  const causes = [{ reason: "FieldValueInvalid", message: why, field }];
  return new ApiError("invalid", { message: `${described(kind, key)} is invalid: ${field}: ${why}`, causes });
}

/** Returns the error of a call that the kit does not support. */
export function unsupported(what: string): ApiError {
  return new ApiError("other", { code: 501, message: `${what}: not supported by the test kit; test it on an API server` });
}
