/**
 * A test kit for reconcilers on an embedded API server.
 *
 * A {@link Cluster} is an API server of its own, empty at first. The test server of `operetta test` runs it in a few
 * milliseconds, without a control plane: validation, defaults, schemas, server-side apply, conflicts, finalizers and
 * selectors are those of Kubernetes, and reads and errors those of the host. It runs reconcilers as the host does, and
 * records their writes, Events and log lines:
 *
 *     const cluster = new Cluster().with(ConfigMap, { metadata: { name: "a", namespace: "ns" } });
 *     assert.deepEqual(cluster.reconcile(plugin, "stamp", { namespace: "ns", name: "a" }), done());
 *     assert.equal(cluster.get(ConfigMap, { namespace: "ns", name: "a" })?.metadata.annotations?.stamped, "yes");
 *
 * `operetta test` runs a project's tests with a server that has the project's CRDs. Other runners, as `operetta-js test`
 * and vitest, work as well: the kit then starts `operetta test --serve` once per process, the program that the variable
 * OPERETTA names or the one on PATH.
 *
 * Limits: the cluster runs no controllers: nothing is garbage collected, no Pod becomes ready, and a test changes objects
 * itself through `cluster.context`. It has no RBAC. Namespaces are created for their first objects. A custom kind of a
 * group that the project does not define gets a definition without a schema with its first object, or by `define`.
 *
 * When a test fails under `node --test`, the objects and the calls of its clusters are printed. In another runner, call
 * {@link afterTest} after each test.
 */
import { afterEach } from "node:test";

import type { EventCall } from "../backend.ts";
import { Context } from "../context.ts";
import type { ApiError } from "../errors.ts";
import { stringify } from "../json.ts";
import { LEVELS, type LogLine, logLine } from "../log-line.ts";
import { type Kind, keyOf, keyText, type KubernetesObject, type ObjectKey, type Stored } from "../object.ts";
import type { Plugin } from "../plugin.ts";
import type { Request, Result } from "../result.ts";
import { backendOf, type State, type Verb, type Write } from "./backend.ts";
import { afterTest, Connection } from "./connection.ts";

export { afterTest };
export type { LogLine, Verb, Write };
export type { Level } from "../log-line.ts";

/** An Event that a reconciler recorded. The kit does not aggregate Events. */
export type RecordedEvent = EventCall;

/** The options of {@link Cluster.define}. */
export interface Definition {
  /** The resource's name, e.g. `foos`; by default the plural as kubectl guesses it. */
  readonly plural?: string;
  /** False for a cluster-scoped kind. */
  readonly namespaced?: boolean;
  /** False for a kind without the status subresource: its status is then an ordinary field. */
  readonly status?: boolean;
}

// A hook outside a test would start Node's runner.
if (process.env["NODE_TEST_CONTEXT"] !== undefined) {
  afterEach((context) => {
    // Node 20 has `passed` since 20.12.
    const { name, passed } = context as { name: string; passed?: boolean };
    afterTest(name, passed ?? true);
  });
}

/** An API server for one test. */
export class Cluster {
  readonly #state: State = { connection: new Connection(), config: "{}", faults: [], writes: [], events: [] };
  readonly #backend = backendOf(this.#state);
  /** A backend without the faults that the test plans. */
  readonly #unplanned = backendOf({ ...this.#state, faults: [] });
  /** The manifest of the last reconcile's plugin. */
  #manifest = "";
  #logs: LogLine[] = [];
  #reconciles = 0;

  /** A client of this cluster, to read and change objects as a user would. Its writes are recorded, too. */
  readonly context = new Context(this.#backend, { controller: "", key: { name: "" }, retries: 0, reconcileId: "" });

  /**
   * Adds an object with its status. The object has to be valid: the API server validates it and sets defaults. It
   * keeps its uid, creationTimestamp, generation and deletionTimestamp if it has them.
   *
   * @throws TypeError if the object has no name.
   * @throws Error if the API server rejects it, an object of its key exists, or there is no test server.
   */
  with<T extends KubernetesObject>(kind: Kind<T>, object: T): this {
    const whole = { ...object, apiVersion: kind.apiVersion, kind: kind.kind };
    keyOf(whole);
    this.#state.connection.call("add", {}, { object: stringify(whole, "the object") });
    return this;
  }

  /**
   * Defines a custom kind without a schema. A kind of the project's CRDs keeps its definition. Another kind gets one with
   * its first object: with the status subresource, and namespaced if the object has a namespace.
   */
  define({ apiVersion, kind }: Kind, { plural, namespaced = true, status = true }: Definition = {}): this {
    this.#state.connection.call("define", { kind: { apiVersion, kind }, plural, namespaced, status });
    return this;
  }

  /** Sets the Plugin object's `spec.config`. */
  withConfig(config: object): this {
    this.#state.config = stringify(config, "the config");
    return this;
  }

  /** Defines a custom kind without the status subresource. See {@link define}. */
  withoutStatusSubresource(kind: Kind): this {
    return this.define(kind, { status: false });
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
    if (plugin.manifest !== this.#manifest) {
      this.#state.connection.call("manifest", { manifest: plugin.manifest });
      this.#manifest = plugin.manifest;
    }
    // Those of earlier calls are not about this reconcile.
    this.#state.connection.takeWarnings();
    this.#reconciles += 1;
    const whole: Request = { controller, key, retries: 0, reconcileId: `test-${this.#reconciles}`, ...request };
    const restore = this.#takeConsole();
    try {
      return plugin.reconcile(new Context(this.#backend, whole));
    } finally {
      restore();
    }
  }

  /** Returns the object of a key, if it exists. A planned fault does not fail it. */
  get<T extends KubernetesObject>(kind: Kind<T>, key: ObjectKey): Stored<T> | undefined {
    return new Context(this.#unplanned, this.context.request).tryGet(kind, key);
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

  /** Returns the objects of the cluster, without the values of Secrets, and the calls so far with their results. */
  dump(): string {
    return String(this.#state.connection.call("dump", {}));
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
