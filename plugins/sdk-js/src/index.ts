/**
 * Write Operetta plugins in TypeScript.
 *
 * A plugin is a set of controllers. The host watches, queues, caches and retries; a reconciler brings one object at a
 * time to its desired state. It is a plain function, without promises and without a client to set up:
 *
 *     import { controller, definePlugin } from "@operetta/sdk";
 *     import { ConfigMap } from "@operetta/sdk/kinds";
 *
 *     export default definePlugin({
 *       controllers: [
 *         controller({
 *           name: "stamp",
 *           for: ConfigMap,
 *           reconcile(ctx, map) {
 *             if (map.metadata.annotations?.stamped) return;
 *             map.metadata.annotations = { ...map.metadata.annotations, stamped: "yes" };
 *             ctx.update(map);
 *           },
 *         }),
 *       ],
 *     });
 *
 * Each reconcile runs in a fresh instance: memory does not survive it, so keep state in objects. The top level of a
 * module runs once, when the plugin is built, and its values are part of the component.
 *
 * Lines of `console` appear in `operetta logs PLUGIN`. `@operetta/sdk/testing` runs reconcilers under `node --test`,
 * without a cluster.
 */
export type { EventType } from "./backend.ts";
export { decodeBase64, encodeBase64 } from "./base64.ts";
export { Context, type OperationResult } from "./context.ts";
export {
  ApiError,
  type ApiErrorKind,
  type Cause,
  isAlreadyExists,
  isApiError,
  isConflict,
  isForbidden,
  isInvalid,
  isNotFound,
  type Status,
  TerminalError,
} from "./errors.ts";
export {
  addFinalizer,
  finalizer,
  type FinalizerSteps,
  hasFinalizer,
  isBeingDeleted,
  removeFinalizer,
} from "./finalizers.ts";
export { semanticDeepEqual } from "./json.ts";
export type { Index, Mapping, Predicate, RateLimiter, Source, SourceLike, Watch, Watches } from "./manifest.ts";
export {
  type Draft,
  type Kind,
  keyOf,
  keyText,
  kind,
  kindOf,
  type KubernetesObject,
  type ObjectKey,
  type ObjectMeta,
  type Stored,
} from "./object.ts";
export type {
  DeleteOptions,
  JsonPatchOperation,
  ListOptions,
  MergePatch,
  Page,
  Patch,
  PatchOptions,
  Propagation,
  RawRequest,
  RawResponse,
  ReadOptions,
  WriteOptions,
} from "./options.ts";
export {
  controllerOf,
  isControlledBy,
  type OwnerReference,
  ownerReference,
  setControllerReference,
} from "./owners.ts";
export {
  type Controller,
  controller,
  definePlugin,
  type KeyController,
  type MapEvent,
  type ObjectController,
  type Plugin,
} from "./plugin.ts";
export { canonicalQuantity } from "./quantity.ts";
export { done, type Request, requeue, requeueAfter, type Result } from "./result.ts";
