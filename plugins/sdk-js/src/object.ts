/**
 * Objects and their kinds: how a TypeScript type is tied to an `apiVersion` and a `kind`, and how one object is named.
 */
import type { ObjectMeta } from "kubernetes-types/meta/v1";

export type { ObjectMeta };

/** What every Kubernetes object has. Types of your own extend it. */
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

/** An object that is being made or changed: it has metadata, whether stored or not. */
export type Draft<T extends KubernetesObject> = T & { metadata: ObjectMeta };

declare const type: unique symbol;

/** A kind by its names, and the type of its objects; {@link kind} makes one. */
export interface Kind<T extends KubernetesObject = KubernetesObject> {
  /** `group/version`, or only the version for the core group. */
  readonly apiVersion: string;
  readonly kind: string;
  /** For the compiler only. */
  readonly [type]?: T;
}

/**
 * Ties a type to its kind. The usual form gives both one name:
 *
 *     interface Foo extends KubernetesObject { spec: { size: number } }
 *     const Foo = kind<Foo>("example.com/v1", "Foo");
 *
 * Throws a TypeError if a name is empty.
 */
export function kind<T extends KubernetesObject = KubernetesObject>(apiVersion: string, kind: string): Kind<T> {
  if (!apiVersion || !kind) {
    throw new TypeError(`kind(${JSON.stringify(apiVersion)}, ${JSON.stringify(kind)}): both names are needed`);
  }
  return { apiVersion, kind };
}

/** The name of one object of a kind; `namespace` is absent for cluster-scoped kinds. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** An object's key. Throws a TypeError if it has no name. */
export function keyOf(object: KubernetesObject): ObjectKey {
  const { namespace, name } = object.metadata ?? {};
  if (!name) {
    throw new TypeError(`this ${describeKind(object)} has no metadata.name`);
  }
  return namespace ? { namespace, name } : { name };
}

/** The kind that an object says it is of. Throws a TypeError if it says none. */
export function kindOf<T extends KubernetesObject>(object: T): Kind<T> {
  const { apiVersion, kind } = object;
  if (!apiVersion || !kind) {
    throw new TypeError(`the object ${object.metadata?.name ?? ""} has no apiVersion and kind: read or create it first`);
  }
  return { apiVersion, kind };
}

/** `NAMESPACE/NAME`, or `NAME` alone, as messages have it. */
export function keyText(key: ObjectKey): string {
  return key.namespace ? `${key.namespace}/${key.name}` : key.name;
}

/** `apps/v1 Deployment`, as messages have it. */
export function describeKind(kind: { readonly apiVersion?: string; readonly kind?: string }): string {
  return [kind.apiVersion, kind.kind].filter(Boolean).join(" ") || "object";
}

/** The group of an apiVersion; empty for the core group. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf("/");
  return slash < 0 ? "" : apiVersion.slice(0, slash);
}
