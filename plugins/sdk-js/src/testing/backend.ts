/** The backend of a test: the calls of a reconciler as requests to the test server. */
import type { Backend, EventCall, RawAnswer, Selection } from "../backend.ts";
import type { ApiError } from "../errors.ts";
import { stringify } from "../json.ts";
import type { Kind, KubernetesObject, ObjectKey } from "../object.ts";
import type { WriteOptions } from "../options.ts";
import type { Connection } from "./connection.ts";

/** The verb of a call, for planned faults and recorded writes. */
export type Verb = "get" | "list" | "create" | "update" | "updateStatus" | "patch" | "delete";

/** A write that the cluster accepted, including one that changed nothing. */
export interface Write {
  readonly verb: Verb;
  readonly kind: Kind;
  readonly key: ObjectKey;
}

/** The state of a test cluster besides its objects. */
export interface State {
  readonly connection: Connection;
  config: string;
  faults: { readonly verb: Verb; readonly error: ApiError }[];
  writes: Write[];
  events: EventCall[];
}

const textOf = (object: unknown) => stringify(object, "an object of the test server");
const kindOf = ({ apiVersion, kind }: Kind) => ({ apiVersion, kind });
const readOf = (live: boolean) => (live ? "live" : "cached");
// The server refuses fields that it does not know.
const keyOf = ({ namespace, name }: ObjectKey) => ({ namespace, name });
const writeOf = ({ dryRun, fieldManager, strict }: WriteOptions) => ({ dryRun, fieldManager, strict });

/** The options of any write. */
interface Options {
  readonly dryRun: boolean | undefined;
  readonly [name: string]: unknown;
}

/** Returns a backend over a state. It records writes and Events, and throws the errors that the test has planned. */
export function backendOf(state: State): Backend {
  const { connection } = state;

  function call(verb: Verb, args: object, texts: Record<string, string> = {}): unknown {
    const at = state.faults.findIndex((fault) => fault.verb === verb);
    const [fault] = at < 0 ? [] : state.faults.splice(at, 1);
    if (fault) {
      throw fault.error;
    }
    return connection.call(verb, args, texts);
  }

  function record(verb: Verb, kind: Kind, key: ObjectKey, dryRun: boolean | undefined): void {
    if (!dryRun) {
      state.writes.push({ verb, kind, key });
    }
  }

  /** Writes the existing object of a key. */
  function write(verb: Verb, kind: Kind, key: ObjectKey, args: { options: Options }, texts = {}) {
    const written = call(verb, { kind: kindOf(kind), key: keyOf(key), ...args }, texts);
    record(verb, kind, key, args.options.dryRun);
    return written;
  }

  return {
    get: (kind, key, live) => textOf(call("get", { kind: kindOf(kind), key: keyOf(key), read: readOf(live) })),

    list(kind, { selection, live, ...options }) {
      const sent = { ...options, selection: selectionOf(selection), read: readOf(live) };
      const page = call("list", { kind: kindOf(kind), options: sent }) as Listed;
      const { resourceVersion, continueToken } = page;
      const items = page.items.map(textOf);
      return continueToken ? { items, resourceVersion, continueToken } : { items, resourceVersion };
    },

    create(kind, namespace, object, options) {
      const made = call("create", { kind: kindOf(kind), namespace, options: writeOf(options) }, { object }) as KubernetesObject;
      const { namespace: own, name = "" } = made.metadata ?? {};
      record("create", kind, { namespace: own, name }, options.dryRun);
      return textOf(made);
    },

    update: (kind, key, object, options) =>
      textOf(write("update", kind, key, { options: writeOf(options) }, { object })),

    updateStatus: (kind, key, object, options) =>
      textOf(write("updateStatus", kind, key, { options: writeOf(options) }, { object })),

    patch: (kind, key, { body, ...patch }, options) =>
      textOf(write("patch", kind, key, { ...patch, options: writeOf(options) }, { body })),

    delete(kind, key, { uid, resourceVersion, gracePeriodSeconds, propagation, dryRun }) {
      write("delete", kind, key, { options: { uid, resourceVersion, gracePeriodSeconds, propagation, dryRun } });
    },

    raw(request): RawAnswer {
      const answer = connection.call("send", { request }) as RawAnswer & { retryAfterSeconds: number | null };
      return { ...answer, retryAfterSeconds: answer.retryAfterSeconds ?? undefined };
    },

    takeWarnings: () => connection.takeWarnings(),

    event(call) {
      state.events.push(call);
    },

    config: () => state.config,
  };
}

/** A page as the server sends it. */
interface Listed {
  readonly items: unknown[];
  readonly resourceVersion: string;
  readonly continueToken: string | null;
}

function selectionOf(selection: Selection): object {
  switch (selection.type) {
    case "all":
      return { type: "all" };
    case "index":
      return { type: "by-index", index: selection.name, value: selection.value };
    case "owner":
      return { type: "by-owner", uid: selection.uid };
  }
}
