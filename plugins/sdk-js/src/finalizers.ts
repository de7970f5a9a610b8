/**
 * Finalizers: cleaning up before an object goes.
 *
 * The API server keeps a deleted object, with a deletionTimestamp, for as long as it has finalizers. {@link finalizer}
 * is the whole pattern in one call; the other functions are its parts.
 */
import type { Context } from "./context.ts";
import { isNotFound } from "./errors.ts";
import { keyOf, kindOf, type KubernetesObject, type Stored } from "./object.ts";
import { done, type Result } from "./result.ts";

/** Whether the object is being deleted. */
export function isBeingDeleted(object: KubernetesObject): boolean {
  return Boolean(object.metadata?.deletionTimestamp);
}

/** Whether the object has the finalizer. */
export function hasFinalizer(object: KubernetesObject, name: string): boolean {
  return object.metadata?.finalizers?.includes(name) ?? false;
}

/** Adds a finalizer to the object in hand; tells whether that changed it. */
export function addFinalizer(object: KubernetesObject, name: string): boolean {
  if (hasFinalizer(object, name)) {
    return false;
  }
  object.metadata ??= {};
  object.metadata.finalizers = [...(object.metadata.finalizers ?? []), name];
  return true;
}

/** Removes a finalizer from the object in hand; tells whether that changed it. */
export function removeFinalizer(object: KubernetesObject, name: string): boolean {
  if (!object.metadata || !hasFinalizer(object, name)) {
    return false;
  }
  object.metadata.finalizers = (object.metadata.finalizers ?? []).filter((finalizer) => finalizer !== name);
  return true;
}

/** What {@link finalizer} runs. */
export interface FinalizerSteps<T extends KubernetesObject> {
  /** For an object that lives. */
  apply(object: Stored<T>): Result | void;
  /** For one that is being deleted. Done says that nothing is left; a requeue, that it is not finished. */
  cleanup(object: Stored<T>): Result | void;
}

/**
 * Runs `apply` on an object that lives and `cleanup` on one that is being deleted.
 *
 * - Before `apply` runs, the object has the finalizer, so no deletion can be missed.
 * - When `cleanup` is done, the finalizer is removed. When it asks for a requeue, the finalizer stays, and `cleanup` runs
 *   again.
 * - An object that is being deleted and has not the finalizer is left alone.
 *
 * The finalizer is written by a merge patch that fails with `conflict` if the object has changed meanwhile; the
 * ServiceAccount needs the verb `patch` on the kind.
 */
export function finalizer<T extends KubernetesObject>(
  ctx: Context,
  object: Stored<T>,
  name: string,
  steps: FinalizerSteps<T>,
): Result {
  if (!isBeingDeleted(object)) {
    const current = addFinalizer(object, name) ? writeFinalizers(ctx, object) : object;
    return steps.apply(current) ?? done();
  }
  if (!hasFinalizer(object, name)) {
    return done();
  }
  const result = steps.cleanup(object) ?? done();
  if (result.type === "done") {
    removeFinalizer(object, name);
    try {
      writeFinalizers(ctx, object);
    } catch (error) {
      if (!isNotFound(error)) {
        throw error;
      }
    }
  }
  return result;
}

function writeFinalizers<T extends KubernetesObject>(ctx: Context, object: Stored<T>): Stored<T> {
  const { resourceVersion, finalizers = [] } = object.metadata;
  const merge = { metadata: { resourceVersion, finalizers } };
  return ctx.patch<KubernetesObject>(kindOf(object), keyOf(object), { merge }) as Stored<T>;
}
