/**
 * Objects, kinds and keys. A {@link Kind} ties a TypeScript type to an `apiVersion` and a `kind`.
 */
import type { ObjectMeta } from "kubernetes-types/meta/v1";

export type { ObjectMeta };

/** The fields of every Kubernetes object. Your own types extend it. */
export interface KubernetesObject {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

/** An object as the API server stores it. */
export type Stored<T extends KubernetesObject> = T & {
  readonly apiVersion: string;
  readonly kind: string;
  metadata: ObjectMeta & { readonly name: string; readonly uid: string; readonly resourceVersion: string };
};

/** An object with metadata, stored or not, that a function may change. */
export type Draft<T extends KubernetesObject> = T & { metadata: ObjectMeta };

declare const type: unique symbol;

/** A kind with the type of its objects; {@link kind} makes one. */
export interface Kind<T extends KubernetesObject = KubernetesObject> {
  /** `group/version`, or only the version for the core group. */
  readonly apiVersion: string;
  readonly kind: string;
  /** Carries the type for the compiler; never set. */
  readonly [type]?: T;
}

/**
 * Ties a type to its kind. By convention both have the same name:
 *
 *     interface Foo extends KubernetesObject { spec: { size: number } }
 *     const Foo = kind<Foo>("example.com/v1", "Foo");
 *
 * @throws TypeError if a name is empty.
 */
export function kind<T extends KubernetesObject = KubernetesObject>(apiVersion: string, kind: string): Kind<T> {
  if (!apiVersion || !kind) {
    throw new TypeError(`kind(${JSON.stringify(apiVersion)}, ${JSON.stringify(kind)}): both names are needed`);
  }
  return { apiVersion, kind };
}

/** The namespace and name of an object; `namespace` is absent for cluster-scoped kinds. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/**
 * Returns the key of an object.
 *
 * @throws TypeError if the object has no name.
 */
export function keyOf(object: KubernetesObject): ObjectKey {
  const { namespace, name } = object.metadata ?? {};
  if (!name) {
    throw new TypeError(`this ${describeKind(object)} has no metadata.name`);
  }
  return namespace ? { namespace, name } : { name };
}

/**
 * Returns the kind of an object, from its `apiVersion` and `kind`.
 *
 * @throws TypeError if the object has no `apiVersion` or `kind`.
 */
export function kindOf<T extends KubernetesObject>(object: T): Kind<T> {
  const { apiVersion, kind } = object;
  if (!apiVersion || !kind) {
    throw new TypeError(`the object ${object.metadata?.name ?? ""} has no apiVersion and kind: read or create it first`);
  }
  return { apiVersion, kind };
}

/** Formats a key for messages: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped object. */
export function keyText(key: ObjectKey): string {
  return key.namespace ? `${key.namespace}/${key.name}` : key.name;
}

/** Formats a kind for messages, e.g. `apps/v1 Deployment`. */
export function describeKind(kind: { readonly apiVersion?: string; readonly kind?: string }): string {
  return [kind.apiVersion, kind.kind].filter(Boolean).join(" ") || "object";
}

/** Returns the group of an apiVersion; empty for the core group. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf("/");
  return slash < 0 ? "" : apiVersion.slice(0, slash);
}
