/** Plugins and their controllers. */
import type { Context } from "./context.ts";
import { TerminalError } from "./errors.ts";
import { parse } from "./json.ts";
import { checkKeys } from "./keys.ts";
import { type Index, kindOfSource, manifestOf, type Watches } from "./manifest.ts";
import { type Kind, keyText, type KubernetesObject, type ObjectKey, type Stored } from "./object.ts";
import { done, type Result } from "./result.ts";

/** A controller whose function receives the object. */
export interface ObjectController<T extends KubernetesObject> extends Watches<T> {
  /** Brings the object to its desired state. Returning nothing means `done()`; a thrown error is retried. */
  reconcile(ctx: Context, object: Stored<T>): Result | void;
  /** Handles a key whose object does not exist. Default: nothing. */
  whenGone?(ctx: Context): Result | void;
}

/** A controller whose function receives only the key, as `ctx.request.key`. */
export interface KeyController<T extends KubernetesObject> extends Watches<T> {
  /** Brings the object of the key to its desired state. The object may not exist. */
  reconcileKey(ctx: Context): Result | void;
}

/** A controller: the kind to reconcile, the watches that enqueue keys of that kind, and the reconcile function. */
export interface Controller {
  readonly name: string;
  /** @internal */
  readonly watches: Watches<KubernetesObject>;
  /** @internal */
  readonly run: (ctx: Context) => Result | void;
}

/**
 * Makes a controller. `reconcile` receives objects of the type of `for`.
 *
 * @throws TypeError if the definition has no reconcile function.
 */
export function controller<T extends KubernetesObject>(
  definition: ObjectController<T> | KeyController<T>,
): Controller {
  const watches = definition as Watches<KubernetesObject>;
  const { name } = definition;
  if ("reconcileKey" in definition) {
    return { name, watches, run: (ctx) => definition.reconcileKey(ctx) };
  }
  if (typeof definition.reconcile !== "function") {
    throw new TypeError(`controller ${JSON.stringify(name)} has neither \`reconcile\` nor \`reconcileKey\``);
  }
  const kind = kindOfSource(definition.for);
  return {
    name,
    watches,
    run(ctx) {
      const object = ctx.tryGet(kind, ctx.request.key);
      return object ? definition.reconcile(ctx, object) : definition.whenGone?.(ctx);
    },
  };
}

/** An event of a watched object, for a mapping by a function. The host passes it; a test may. */
export interface MapEvent {
  /** The name of the controller that watches the object. */
  readonly controller: string;
  readonly kind: Kind;
  /** The object as JSON text; after a deletion, its last state. */
  readonly object: string;
  /** The old state, if the object has changed since it was last mapped. */
  readonly old?: string | undefined;
}

/** A set of controllers and indexes. `src/plugin.ts` exports one as its default. */
export class Plugin {
  readonly #controllers: ReadonlyMap<string, Controller>;
  /** The declared indexes. */
  readonly indexes: readonly Index[];
  /** The manifest that the host reads, as JSON text. */
  readonly manifest: string;

  /** @internal */
  constructor(controllers: readonly Controller[], indexes: readonly Index[]) {
    const watches = controllers.map((controller) => controller.watches);
    this.manifest = JSON.stringify(manifestOf(watches, indexes));
    this.indexes = indexes;
    this.#controllers = new Map(controllers.map((controller) => [controller.name, controller]));
  }

  /** Reports whether a watch maps events by a function; then the component exports `mapper`. */
  get maps(): boolean {
    const watches = [...this.#controllers.values()].flatMap((controller) => controller.watches.watches ?? []);
    return watches.some(({ map }) => map.type === "custom");
  }

  /**
   * Returns the keys that the watches' functions map an event to, for the object and for its old state.
   *
   * @throws TerminalError if the plugin has no such controller.
   */
  map(event: MapEvent): ObjectKey[] {
    const controller = this.#controllers.get(event.controller);
    if (!controller) {
      throw new TerminalError(`this plugin has no controller ${JSON.stringify(event.controller)}`);
    }
    const keys = new Map<string, ObjectKey>();
    for (const { source, map } of controller.watches.watches ?? []) {
      const { apiVersion, kind } = kindOfSource(source);
      if (map.type !== "custom" || apiVersion !== event.kind.apiVersion || kind !== event.kind.kind) {
        continue;
      }
      for (const text of event.old === undefined ? [event.object] : [event.object, event.old]) {
        for (const key of map.keys(parse(text, `the ${kind} to map`) as KubernetesObject)) {
          keys.set(keyText(key), key);
        }
      }
    }
    return [...keys.values()];
  }

  /**
   * Calls the reconcile function of the controller that the request names.
   *
   * @throws TerminalError if there is no such controller, or its function returns no {@link Result}.
   * @throws any error that the function throws.
   */
  reconcile(ctx: Context): Result {
    const name = ctx.request.controller;
    const controller = this.#controllers.get(name);
    if (!controller) {
      throw new TerminalError(`this plugin has no controller ${JSON.stringify(name)}`);
    }
    return checked(controller.run(ctx) ?? done(), name);
  }
}

/**
 * Defines a plugin.
 *
 * @throws TypeError if the definition is wrong.
 */
export function definePlugin(definition: {
  readonly controllers: readonly Controller[];
  /** Indexes over cached objects, for `ListOptions.index`. */
  readonly indexes?: readonly Index[];
}): Plugin {
  checkKeys(definition, "plugin", "the plugin");
  return new Plugin(definition.controllers, definition.indexes ?? []);
}

const RESULTS = ["done", "requeue", "requeue-after"];

/** Checks the type of a result, for plugins in JavaScript. */
function checked(result: Result, name: string): Result {
  if (RESULTS.includes(result.type)) {
    return result;
  }
  const promise = typeof (result as { then?: unknown }).then === "function";
  const what = promise
    ? "returned a promise: the host's calls need no `await`, so write it without `async`"
    : "returned something else than done(), requeue() or requeueAfter(ms)";
  throw new TerminalError(`the reconcile function of controller ${JSON.stringify(name)} ${what}`);
}
