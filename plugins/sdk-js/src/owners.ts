/** Owner references: who made an object, and who collects it (controller-runtime's `controllerutil`). */
import type { OwnerReference } from "kubernetes-types/meta/v1";

import { groupOf, keyOf, keyText, kindOf, type KubernetesObject } from "./object.ts";

export type { OwnerReference };

/** The reference by which `owner` controls a child: deleting the owner deletes the child. Throws if it is not stored. */
export function ownerReference(owner: KubernetesObject): OwnerReference {
  const { apiVersion, kind } = kindOf(owner);
  const { name } = keyOf(owner);
  const uid = owner.metadata?.uid;
  if (!uid) {
    throw new TypeError(`${kind} ${keyText(keyOf(owner))} has no uid: only stored objects can own`);
  }
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** The owner that controls an object, if one does. */
export function controllerOf(object: KubernetesObject): OwnerReference | undefined {
  return object.metadata?.ownerReferences?.find((reference) => reference.controller === true);
}

/** Whether `owner` controls `child`. Two objects of one name are told apart by their uids. */
export function isControlledBy(child: KubernetesObject, owner: KubernetesObject): boolean {
  const uid = owner.metadata?.uid;
  return uid !== undefined && controllerOf(child)?.uid === uid;
}

/**
 * Makes `owner` the controlling owner of `child`: the child's events enqueue it, and it takes the child with it when it
 * goes. A reference of `owner` that is there already is brought up to date.
 *
 * Throws if another object controls the child, if the owner was not read from the API server, or if it is in another
 * namespace, where Kubernetes would collect the child at once.
 */
export function setControllerReference(owner: KubernetesObject, child: KubernetesObject): void {
  const reference = ownerReference(owner);
  const { name, namespace } = child.metadata ?? {};
  const childName = [child.kind ?? "the object", keyText({ namespace, name: name ?? "" })].join(" ");
  const ownerName = `${reference.kind} ${keyText(keyOf(owner))}`;
  if (owner.metadata?.namespace && owner.metadata.namespace !== namespace) {
    throw new TypeError(`${ownerName} cannot own ${childName}: another namespace`);
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

/** Whether two references name one object; the versions of its group do not matter. */
function isSameObject(a: OwnerReference, b: OwnerReference): boolean {
  return groupOf(a.apiVersion) === groupOf(b.apiVersion) && a.kind === b.kind && a.name === b.name;
}
