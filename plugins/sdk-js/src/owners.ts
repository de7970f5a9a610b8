/** Owner references (controller-runtime's `controllerutil`). */
import type { OwnerReference } from "kubernetes-types/meta/v1";

import { groupOf, keyOf, keyText, kindOf, type KubernetesObject } from "./object.ts";

export type { OwnerReference };

/**
 * Returns a reference that makes `owner` the controlling owner of a child. Deleting the owner deletes the child.
 *
 * @throws TypeError if the owner has no uid, because it is not stored, or no kind or name.
 */
export function ownerReference(owner: KubernetesObject): OwnerReference {
  const { apiVersion, kind } = kindOf(owner);
  const { name } = keyOf(owner);
  const uid = owner.metadata?.uid;
  if (!uid) {
    throw new TypeError(`${kind} ${keyText(keyOf(owner))} has no uid: an owner must be read from the API server`);
  }
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** Returns the controlling owner of an object, if there is one. */
export function controllerOf(object: KubernetesObject): OwnerReference | undefined {
  return object.metadata?.ownerReferences?.find((reference) => reference.controller === true);
}

/** Reports whether `owner` is the controlling owner of `child`, by its uid. */
export function isControlledBy(child: KubernetesObject, owner: KubernetesObject): boolean {
  const uid = owner.metadata?.uid;
  return uid !== undefined && controllerOf(child)?.uid === uid;
}

/**
 * Makes `owner` the controlling owner of `child`. Events of the child enqueue the owner, and deleting the owner deletes
 * the child. An existing reference to `owner` is updated.
 *
 * @throws TypeError if the owner is not stored, or is in another namespace, where Kubernetes would delete the child.
 * @throws Error if another object controls the child.
 */
export function setControllerReference(owner: KubernetesObject, child: KubernetesObject): void {
  const reference = ownerReference(owner);
  const { name, namespace } = child.metadata ?? {};
  const childName = [child.kind ?? "the object", keyText({ namespace, name: name ?? "" })].join(" ");
  const ownerName = `${reference.kind} ${keyText(keyOf(owner))}`;
  if (owner.metadata?.namespace && owner.metadata.namespace !== namespace) {
    throw new TypeError(`${ownerName} cannot own ${childName}: it is in another namespace`);
  }
  const other = controllerOf(child);
  if (other && !isSameObject(other, reference)) {
    throw new Error(`${childName} is already controlled by ${other.kind} ${other.name}`);
  }
  child.metadata ??= {};
  const references = child.metadata.ownerReferences ?? [];
  const at = references.findIndex((existing) => isSameObject(existing, reference));
  child.metadata.ownerReferences =
    at < 0 ? [...references, reference] : references.map((existing, i) => (i === at ? reference : existing));
}

/** Reports whether two references name the same object, in any version of its group. */
function isSameObject(a: OwnerReference, b: OwnerReference): boolean {
  return groupOf(a.apiVersion) === groupOf(b.apiVersion) && a.kind === b.kind && a.name === b.name;
}
