/**
 * A test kit for reconcilers under `node --test`, without a cluster.
 *
 * A {@link Cluster} is an API server in memory with the semantics that reconcilers rely on: resourceVersions and
 * conflicts, already-exists, uids, generations, the status subresource, finalizers and deletionTimestamps, label
 * selectors, owners and declared indexes, merge and JSON patches. It runs reconcilers as the host does, and records
 * their Events and log lines:
 *
 *     const cluster = new Cluster().with(ConfigMap, { metadata: { name: "a", namespace: "ns" } });
 *     assert.deepEqual(cluster.reconcile(plugin, "stamp", { namespace: "ns", name: "a" }), done());
 *     assert.equal(cluster.get(ConfigMap, { namespace: "ns", name: "a" })?.metadata.annotations?.stamped, "yes");
 *
 * Limits: it has no schemas, so it does not validate, default or prune fields. It runs no controllers: nothing is
 * garbage collected, no Pod becomes ready, and a test changes objects itself through `cluster.context`. It has no RBAC.
 * It rejects server-side apply, strict validation, generateName, foreground and orphan deletion, the `scale`
 * subresource and raw requests with an error.
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

/** An Event that a reconciler recorded. The kit does not aggregate Events. */
export type RecordedEvent = EventCall;

/** An API server in memory. */
export class Cluster {
  readonly #state: State = { store: new Store(), config: "{}", indexes: [], faults: [], writes: [], events: [] };
  readonly #backend = backendOf(this.#state);
  /** A backend without the faults that the test plans. */
  readonly #unplanned = backendOf({ ...this.#state, faults: [] });
  #logs: LogLine[] = [];
  #reconciles = 0;

  /** A client of this cluster, to read and change objects as a user would. Its writes are recorded, too. */
  readonly context = new Context(this.#backend, { controller: "", key: { name: "" }, retries: 0, reconcileId: "" });

  /**
   * Adds an object, including its status and deletionTimestamp. Missing fields that the API server sets (uid,
   * resourceVersion, creationTimestamp, generation) are set.
   *
   * @throws TypeError if the object has no name.
   * @throws ApiError `already-exists`.
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
   * Declares that a kind has no status subresource, so that its status is an ordinary field. By default all kinds have
   * one, except built-in kinds without a status.
   */
  withoutStatusSubresource(kind: Kind): this {
    this.#state.store.setNoStatus(kind);
    return this;
  }

  /** Makes the next call of this verb fail with this error. Several faults are used in order. */
  failNext(verb: Verb, error: ApiError): void {
    this.#state.faults.push({ verb, error });
  }

  /**
   * Reconciles a key and returns the reconciler's result. `request` overrides fields of the request, e.g. `retries`.
   *
   * @throws any error that the reconciler throws.
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

  /** Returns the object of a key, if it exists. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: ObjectKey): Stored<T> | undefined {
    return this.#state.store.has(kind, key) ? new Context(this.#unplanned, this.context.request).get(kind, key) : undefined;
  }

  /** Returns the writes since the last call of this method, in order, as `update Deployment ns/name`. */
  writes(): string[] {
    return this.#state.writes.splice(0).map(({ verb, kind, key }) => `${verb} ${kind.kind} ${keyText(key)}`);
  }

  /** Returns the Events since the last call of this method, in order. */
  events(): RecordedEvent[] {
    return this.#state.events.splice(0);
  }

  /** Returns the log lines of every level since the last call of this method, in order. */
  logs(): LogLine[] {
    return this.#logs.splice(0);
  }

  /** Records the log lines until the returned function is called. */
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
