/**
 * Reconcilers in `node --test`, without a cluster.
 *
 * A {@link Cluster} is an API server in memory with the semantics that reconcilers rely on: resourceVersions and
 * conflicts, already-exists, uids, generations, the status subresource, finalizers and deletionTimestamps, label
 * selectors, owners and declared indexes, merge and JSON patches. Reconcilers run in it as they run in the host, and it
 * keeps the events and logs they wrote:
 *
 *     const cluster = new Cluster().with(ConfigMap, { metadata: { name: "a", namespace: "ns" } });
 *     assert.deepEqual(cluster.reconcile(plugin, "stamp", { namespace: "ns", name: "a" }), done());
 *     assert.equal(cluster.get(ConfigMap, { namespace: "ns", name: "a" })?.metadata.annotations?.stamped, "yes");
 *
 * What it is not: it knows no schemas, so it neither validates, defaults nor prunes fields. It runs no controllers:
 * nothing is garbage collected, no Pod becomes ready, and a test changes objects itself through `cluster.context`. It
 * has no RBAC. What would need more than it knows (server-side apply, strict validation, generateName, foreground and
 * orphan deletion, the `scale` subresource, raw requests) it refuses with an error that says so, rather than guess.
 */
import type { EventCall } from "../backend.ts";
import { Context } from "../context.ts";
import type { ApiError } from "../errors.ts";
import { parse, stringify } from "../json.ts";
import { LEVELS, type LogLine, logLine } from "../log-line.ts";
import { type Kind, keyOf, keyText, type KubernetesObject, type ObjectKey, type Stored } from "../object.ts";
import type { Plugin } from "../plugin.ts";
import type { Request, Result } from "../result.ts";
import { backendOf, type State, type Verb, type Write } from "./backend.ts";
import type { Json } from "./patches.ts";
import { Store } from "./store.ts";

export type { LogLine, Verb, Write };
export type { Level } from "../log-line.ts";

/** An event that a reconciler recorded. The kit aggregates nothing. */
export type RecordedEvent = EventCall;

/** An API server in memory. */
export class Cluster {
  readonly #state: State = { store: new Store(), config: "{}", indexes: [], faults: [], writes: [], events: [] };
  readonly #backend = backendOf(this.#state);
  /** Without the faults that a test plans for its reconciler. */
  readonly #unplanned = backendOf({ ...this.#state, faults: [] });
  #logs: LogLine[] = [];
  #reconciles = 0;

  /** A client of this cluster, to change objects and look at them as a user would. Its writes are recorded, too. */
  readonly context = new Context(this.#backend, { controller: "", key: { name: "" }, retries: 0, reconcileId: "" });

  /**
   * Adds an object as it stands, its status and deletionTimestamp included. What the API server sets (uid,
   * resourceVersion, creationTimestamp, generation) is set where it is missing. Throws if it has no name, or exists.
   */
  with<T extends KubernetesObject>(kind: Kind<T>, object: T): this {
    const whole = { ...object, apiVersion: kind.apiVersion, kind: kind.kind };
    this.#state.store.seed(kind, keyOf(whole), parse(stringify(whole, "the object"), "the object") as Json);
    return this;
  }

  /** Sets the Plugin object's `spec.config`. */
  withConfig(config: object): this {
    this.#state.config = stringify(config, "the config");
    return this;
  }

  /**
   * Says that this CRD has no status subresource: the status is then a field like any other. All kinds have one but the
   * built-in ones without status.
   */
  withoutStatusSubresource(kind: Kind): this {
    this.#state.store.setNoStatus(kind);
    return this;
  }

  /** The next call of this kind fails with this error. Several faults are used up in order. */
  failNext(verb: Verb, error: ApiError): void {
    this.#state.faults.push({ verb, error });
  }

  /**
   * Reconciles a key, for the first time unless `request` says otherwise, and returns what the reconciler does. What it
   * throws comes out.
   */
  reconcile(plugin: Plugin, controller: string, key: ObjectKey, request: Partial<Request> = {}): Result {
    this.#state.indexes = plugin.indexes;
    this.#reconciles += 1;
    const whole: Request = { controller, key, retries: 0, reconcileId: `test-${this.#reconciles}`, ...request };
    const restore = this.#takeConsole();
    try {
      return plugin.reconcile(new Context(this.#backend, whole));
    } finally {
      restore();
    }
  }

  /** The object of a key, if it exists. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: ObjectKey): Stored<T> | undefined {
    return this.#state.store.has(kind, key) ? new Context(this.#unplanned, this.context.request).get(kind, key) : undefined;
  }

  /** The writes since the last call of this function, in order, as `update Deployment ns/name`. */
  writes(): string[] {
    return this.#state.writes.splice(0).map(({ verb, kind, key }) => `${verb} ${kind.kind} ${keyText(key)}`);
  }

  /** The events since the last call of this function, in order. */
  events(): RecordedEvent[] {
    return this.#state.events.splice(0);
  }

  /** The log lines of every level since the last call of this function, in order. */
  logs(): LogLine[] {
    return this.#logs.splice(0);
  }

  /** Keeps what is logged until the function that it returns is called. */
  #takeConsole(): () => void {
    const own = Object.keys(LEVELS).map((name) => [name as keyof typeof LEVELS, console[name as keyof typeof LEVELS]] as const);
    for (const [name] of own) {
      console[name] = (...args: unknown[]) => {
        this.#logs.push(logLine(LEVELS[name], args, (error) => error.stack ?? ""));
      };
    }
    return () => {
      for (const [name, original] of own) {
        console[name] = original;
      }
    };
  }
}
