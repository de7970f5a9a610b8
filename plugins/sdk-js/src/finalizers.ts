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

/** Reports whether the object is being deleted. */
export function isBeingDeleted(object: KubernetesObject): boolean {
  return Boolean(object.metadata?.deletionTimestamp);
}

/** Reports whether the object has the finalizer. */
export function hasFinalizer(object: KubernetesObject, name: string): boolean {
  return object.metadata?.finalizers?.includes(name) ?? false;
}

/** Adds a finalizer to the object in memory, and reports whether the object changed. */
export function addFinalizer(object: KubernetesObject, name: string): boolean {
  if (hasFinalizer(object, name)) {
    return false;
  }
  object.metadata ??= {};
  object.metadata.finalizers = [...(object.metadata.finalizers ?? []), name];
  return true;
}

/** Removes a finalizer from the object in memory, and reports whether the object changed. */
export function removeFinalizer(object: KubernetesObject, name: string): boolean {
  if (!object.metadata || !hasFinalizer(object, name)) {
    return false;
  }
  object.metadata.finalizers = (object.metadata.finalizers ?? []).filter((finalizer) => finalizer !== name);
  return true;
}

/** The functions that {@link finalizer} calls. */
export interface FinalizerSteps<T extends KubernetesObject> {
  /** Reconciles an object that is not being deleted. */
  apply(object: Stored<T>): Result | void;
  /** Cleans up for an object that is being deleted. The finalizer is removed when the result is `done()`. */
  cleanup(object: Stored<T>): Result | void;
}

/**
 * Calls `cleanup` if the object is being deleted, and `apply` otherwise.
 *
 * - The finalizer is written before `apply` runs, so no deletion is missed.
 * - The finalizer is removed when `cleanup` returns `done()`. A requeue keeps it, and `cleanup` runs again.
 * - An object that is being deleted without the finalizer is ignored.
 *
 * The finalizer is written by a merge patch; the ServiceAccount needs the verb `patch` on the kind. `operetta generate
 * rbac` grants it if the controller declares the finalizer in `finalizers`.
 *
 * @throws ApiError `conflict` if the object has changed since it was read.
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
