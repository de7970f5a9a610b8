/** The plugin an author writes down: its controllers, what each watches, and the function that reconciles. */
import type { Context } from "./context.ts";
import { TerminalError } from "./errors.ts";
import { parse } from "./json.ts";
import { type Index, kindOfSource, manifestOf, type Watches } from "./manifest.ts";
import { type Kind, keyText, type KubernetesObject, type ObjectKey, type Stored } from "./object.ts";
import { done, type Result } from "./result.ts";

/** A controller whose function gets the object. */
export interface ObjectController<T extends KubernetesObject> extends Watches<T> {
  /** Brings the object to its desired state. Returning nothing is `done()`; throwing is a retry. */
  reconcile(ctx: Context, object: Stored<T>): Result | void;
  /** What to do when the object is gone: nothing, if left out. */
  whenGone?(ctx: Context): Result | void;
}

/** A controller whose function gets the key only, as `ctx.request.key`. */
export interface KeyController<T extends KubernetesObject> extends Watches<T> {
  /** Brings the object of the key to its desired state; it may be gone. */
  reconcileKey(ctx: Context): Result | void;
}

/** One controller: the kind it reconciles, what else enqueues keys of that kind, and the function that reconciles. */
export interface Controller {
  readonly name: string;
  /** @internal */
  readonly watches: Watches<KubernetesObject>;
  /** @internal */
  readonly run: (ctx: Context) => Result | void;
}

/** Makes a controller; the type of `for` is the type that `reconcile` gets. */
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

/** What happened to a watched object: what the host hands over to be mapped, and what a test may. */
export interface MapEvent {
  /** The controller that watches it. */
  readonly controller: string;
  readonly kind: Kind;
  /** The object as JSON text, as it is now, or was last. */
  readonly object: string;
  /** As it was when it was mapped last, if it has changed since. */
  readonly old?: string | undefined;
}

/** Everything a `.wasm` holds: `src/plugin.ts` exports one as its default. */
export class Plugin {
  readonly #controllers: ReadonlyMap<string, Controller>;
  /** The indexes that lists may use. */
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

  /** Whether a watch has a function that names keys: then the component exports `mapper`. */
  get maps(): boolean {
    const watches = [...this.#controllers.values()].flatMap((controller) => controller.watches.watches ?? []);
    return watches.some(({ map }) => map.type === "custom");
  }

  /** Which keys an event of a watched object wakes, as the watches' functions say: those of the old state, too. */
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

  /** Hands a request to the controller that it names; what its function throws comes out. */
  reconcile(ctx: Context): Result {
    const name = ctx.request.controller;
    const controller = this.#controllers.get(name);
    if (!controller) {
      throw new TerminalError(`this plugin has no controller ${JSON.stringify(name)}`);
    }
    return checked(controller.run(ctx) ?? done(), name);
  }
}

/** Defines a plugin. Throws a TypeError that says what is wrong with it. */
export function definePlugin(definition: {
  readonly controllers: readonly Controller[];
  /** Indexes over cached objects, for `ListOptions.index`. */
  readonly indexes?: readonly Index[];
}): Plugin {
  return new Plugin(definition.controllers, definition.indexes ?? []);
}

const RESULTS = ["done", "requeue", "requeue-after"];

/** JavaScript authors have no compiler that tells them. */
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
