/** The backend of a test: a cluster in memory. */
import { parse as losslessParse, stringify as losslessStringify } from "lossless-json";

import type { Backend, EventCall, ListCall, RawAnswer } from "../backend.ts";
import { ApiError } from "../errors.ts";
import { integer, isNative, parse, stringify, useCodec } from "../json.ts";
import type { Index } from "../manifest.ts";
import type { Kind, ObjectKey } from "../object.ts";
import type { Page, WriteOptions } from "../options.ts";
import { isObject, type Json, type JsonObject, jsonPatch, mergePatch } from "./patches.ts";
import { matches } from "./selector.ts";
import { invalid, type StoredObject, type Store, unsupported } from "./store.ts";

if (!isNative) {
  useCodec({ parse: (text) => losslessParse(text, undefined, numberOf), stringify: losslessStringify });
}

function numberOf(source: string): number | bigint {
  const value = Number(source);
  return Number.isSafeInteger(value) ? value : (integer(source) ?? value);
}

/** The verb of a call, for planned faults and recorded writes. */
export type Verb = "get" | "list" | "create" | "update" | "updateStatus" | "patch" | "delete";

/** A write that the cluster accepted, including one that changed nothing. */
export interface Write {
  readonly verb: Verb;
  readonly kind: Kind;
  readonly key: ObjectKey;
}

/** The state of a test cluster. */
export interface State {
  readonly store: Store;
  config: string;
  /** The indexes that the plugin of the last reconcile declares. */
  indexes: readonly Index[];
  faults: { readonly verb: Verb; readonly error: ApiError }[];
  writes: Write[];
  events: EventCall[];
}

/** Returns a backend over a state. */
export function backendOf(state: State): Backend {
  const { store } = state;

  function fail(verb: Verb): void {
    const at = state.faults.findIndex((fault) => fault.verb === verb);
    const [fault] = at < 0 ? [] : state.faults.splice(at, 1);
    if (fault) {
      throw fault.error;
    }
  }

  function write(verb: Verb, kind: Kind, key: ObjectKey, dryRun: boolean | undefined, run: () => StoredObject): string {
    fail(verb);
    const undo = store.snapshot();
    const object = run();
    if (dryRun) {
      undo();
    } else {
      state.writes.push({ verb, kind, key });
    }
    return stringify(object, "the object");
  }

  const body = (text: string) => parse(text, "what was sent") as Json;

  return {
    get(kind, key, _live) {
      fail("get");
      return stringify(store.get(kind, key), "the object");
    },

    list(kind, call) {
      fail("list");
      return listOf(store, state.indexes, kind, call);
    },

    create: (kind, namespace, text, options) => {
      refuseStrict(options);
      const object = body(text);
      const name = isObject(object) && isObject(object["metadata"]) ? String(object["metadata"]["name"] ?? "") : "";
      return write("create", kind, { namespace, name }, options.dryRun, () => store.create(kind, namespace, object));
    },

    update(kind, key, text, options) {
      refuseStrict(options);
      return write("update", kind, key, options.dryRun, () => store.update(kind, key, body(text), "main"));
    },

    updateStatus(kind, key, text, options) {
      refuseStrict(options);
      return write("updateStatus", kind, key, options.dryRun, () => store.update(kind, key, body(text), "status"));
    },

    patch(kind, key, { type, body: text, subresource }, options) {
      refuseStrict(options);
      if (type === "apply") {
        throw unsupported("server-side apply");
      }
      if (subresource !== undefined && subresource !== "status") {
        throw unsupported(`the subresource ${JSON.stringify(subresource)}`);
      }
      return write("patch", kind, key, options.dryRun, () => {
        const part = subresource ? "status" : "main";
        return store.update(kind, key, patched(kind, key, store.get(kind, key), type, body(text)), part);
      });
    },

    delete(kind, key, options) {
      write("delete", kind, key, options.dryRun, () => {
        const object = store.get(kind, key);
        store.delete(kind, key, options);
        return object;
      });
    },

    raw({ method, path }): RawAnswer {
      const message = `${method} ${path}: raw requests are not supported by the test kit; test it on an API server`;
      const status = { kind: "Status", apiVersion: "v1", status: "Failure", reason: "NotImplemented", code: 501, message };
      return { status: 501, contentType: "application/json", retryAfterSeconds: undefined, body: JSON.stringify(status) };
    },

    event(call) {
      state.events.push(call);
    },

    config: () => state.config,
  };
}

function refuseStrict({ strict }: WriteOptions): void {
  if (strict) {
    throw unsupported("strict validation");
  }
}

function patched(kind: Kind, key: ObjectKey, object: StoredObject, type: "merge" | "json", patch: Json): Json {
  if (type === "merge") {
    return mergePatch(object, patch);
  }
  if (!Array.isArray(patch)) {
    throw new ApiError("bad-request", "a JSON patch is an array of operations");
  }
  try {
    return jsonPatch(object, patch as never[]);
  } catch (error) {
    throw invalid(kind, key, "patch", (error as Error).message);
  }
}

function listOf(store: Store, indexes: readonly Index[], kind: Kind, call: ListCall): Page<string> {
  const chosen = chooser(indexes, kind, call);
  const all = store.ofKind(kind).filter(chosen);
  const from = call.continueToken === undefined ? 0 : Number(call.continueToken);
  if (!Number.isInteger(from) || from < 0) {
    throw badRequest(`the continue token ${JSON.stringify(call.continueToken)} is not one of this test kit`);
  }
  const to = call.limit ? from + call.limit : all.length;
  const items = all.slice(from, to).map((object) => stringify(projected(object, call.projection), "the object"));
  const page = { items, resourceVersion: store.version };
  return to < all.length ? { ...page, continueToken: String(to) } : page;
}

function badRequest(message: string): ApiError {
  return new ApiError("bad-request", message);
}

function chooser(indexes: readonly Index[], kind: Kind, call: ListCall): (object: StoredObject) => boolean {
  const { namespace, labels, fields, selection, live } = call;
  if (live && selection.type !== "all") {
    throw badRequest("a list by index or owner must be cached");
  }
  const selects = selecting(indexes, kind, selection);
  const wanted = fieldsOf(fields ?? "");
  return (object) =>
    (namespace === undefined || object.metadata["namespace"] === namespace) &&
    wanted.every(([path, value, equal]) => (textAt(object, path) === value) === equal) &&
    selects(object) &&
    (labels === undefined || labelsMatch(labels, object));
}

function labelsMatch(selector: string, { metadata }: StoredObject): boolean {
  try {
    return matches(selector, (metadata["labels"] ?? {}) as Record<string, string>);
  } catch (error) {
    throw badRequest((error as Error).message);
  }
}

function selecting(
  indexes: readonly Index[],
  kind: Kind,
  selection: ListCall["selection"],
): (object: StoredObject) => boolean {
  switch (selection.type) {
    case "all":
      return () => true;
    case "owner":
      return (object) => controllerOf(object)?.["uid"] === selection.uid;
    case "index": {
      const { name, value } = selection;
      const isIt = (index: Index) =>
        index.name === name && index.kind.kind === kind.kind && index.kind.apiVersion === kind.apiVersion;
      const index = indexes.find(isIt);
      if (!index) {
        throw badRequest(`the plugin declares no index ${JSON.stringify(name)} on ${kind.kind}`);
      }
      if ("controller" in index) {
        const { controller } = index;
        return (object) => {
          const owner = controllerOf(object);
          return owner?.["kind"] === controller.kind && owner["apiVersion"] === controller.apiVersion && owner["name"] === value;
        };
      }
      if ("label" in index) {
        return ({ metadata }) => (metadata["labels"] as JsonObject | undefined)?.[index.label] === value;
      }
      return (object) => textAt(object, index.path) === value;
    }
  }
}

function controllerOf({ metadata }: StoredObject): JsonObject | undefined {
  const references = metadata["ownerReferences"];
  return Array.isArray(references)
    ? (references as JsonObject[]).find((reference) => reference["controller"] === true)
    : undefined;
}

/** Parses a field selector into paths, values, and whether they must be equal. */
function fieldsOf(selector: string): [path: string, value: string, equal: boolean][] {
  return selector
    .split(",")
    .filter((part) => part.trim() !== "")
    .map((part) => {
      const match = /^\s*([\w.]+)\s*(!=|==?)\s*(\S*)\s*$/.exec(part);
      const [, path = "", operator, value = ""] = match ?? [];
      if (!match || !["metadata.name", "metadata.namespace"].includes(path)) {
        throw badRequest(`field selector ${JSON.stringify(part)}: the cache knows metadata.name and metadata.namespace`);
      }
      return [`.${path}`, value, operator !== "!="];
    });
}

/** Returns the value at a path as the text of an index. */
function textAt(object: JsonObject, path: string): string | undefined {
  const value = path
    .split(".")
    .slice(1)
    .reduce<Json | undefined>((inner, name) => (isObject(inner) ? inner[name] : undefined), object);
  return value === undefined || value === null || typeof value === "object" ? undefined : String(value);
}

const ALWAYS = [".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".metadata.uid", ".metadata.resourceVersion"];

function projected(object: StoredObject, paths: readonly string[]): Json {
  if (paths.length === 0) {
    return object;
  }
  return [...ALWAYS, ...paths].reduce<Json>((whole, path) => {
    const names = path.split(".").slice(1);
    let value: Json | undefined = object;
    for (const name of names) {
      value = isObject(value) ? value[name] : undefined;
    }
    return value === undefined ? whole : mergePatch(whole, names.reduceRight<Json>((inner, name) => ({ [name]: inner }), value));
  }, {});
}
