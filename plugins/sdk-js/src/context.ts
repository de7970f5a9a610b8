/**
 * The context of a reconcile: a client of the API server, Events, and the plugin's configuration. The client acts as
 * the plugin's ServiceAccount.
 *
 * Calls return values, not promises: the host suspends the plugin while it waits. Reads come from the host's cache
 * unless they are live, and see the plugin's own writes at once. A failed call throws an {@link ApiError}.
 */
import type { Scale } from "kubernetes-types/autoscaling/v1";

import type { Backend, EventType, ListCall, PatchCall, Selection } from "./backend.ts";
import { isNotFound, TerminalError } from "./errors.ts";
import { parse, semanticDeepEqual, stringify } from "./json.ts";
import {
  describeKind,
  type Draft,
  type Kind,
  keyOf,
  keyText,
  kindOf,
  type KubernetesObject,
  type ObjectKey,
  type Stored,
} from "./object.ts";
import type {
  DeleteOptions,
  ListOptions,
  Page,
  Patch,
  PatchOptions,
  RawRequest,
  RawResponse,
  ReadOptions,
  WriteOptions,
} from "./options.ts";
import type { Request } from "./result.ts";

/** The outcome of {@link Context.createOrUpdate}. */
export type OperationResult = "created" | "updated" | "unchanged";

const NO_OPTIONS = {};

/** The client, Events and configuration of one reconcile. */
export class Context {
  /** The request: the key, the number of failed attempts, and the id of the reconcile. */
  readonly request: Request;
  readonly #backend: Backend;

  /** Makes a context. The host makes the one of a plugin; `Cluster` makes the one of a test. */
  constructor(backend: Backend, request: Request) {
    this.#backend = backend;
    this.request = request;
  }

  /**
   * Reads an object.
   *
   * @throws ApiError `not-found` if the object does not exist.
   */
  get<T extends KubernetesObject>(kind: Kind<T>, key: ObjectKey, options: ReadOptions = NO_OPTIONS): Stored<T> {
    return decode(kind, this.#backend.get(kind, key, options.live ?? false));
  }

  /**
   * Reads an object, or returns undefined if it does not exist.
   *
   * @throws ApiError if the call fails for another reason.
   */
  tryGet<T extends KubernetesObject>(
    kind: Kind<T>,
    key: ObjectKey,
    options: ReadOptions = NO_OPTIONS,
  ): Stored<T> | undefined {
    try {
      return this.get(kind, key, options);
    } catch (error) {
      if (isNotFound(error)) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * Reads every page of a list.
   *
   * @throws ApiError `bad-request` if a selector does not parse or an index is not declared.
   * @throws ApiError `expired` if a live list expires between two pages.
   * @throws TypeError if the options name both an index and an owner, or an owner without a uid.
   */
  list<T extends KubernetesObject>(kind: Kind<T>, options: ListOptions = NO_OPTIONS): Stored<T>[] {
    let page = this.listPage(kind, options);
    const items = page.items;
    while (page.continueToken) {
      page = this.listPage(kind, { ...options, continueToken: page.continueToken });
      items.push(...page.items);
    }
    return items;
  }

  /**
   * Reads one page of a list.
   *
   * @throws ApiError and TypeError as {@link list} does.
   */
  listPage<T extends KubernetesObject>(kind: Kind<T>, options: ListOptions = NO_OPTIONS): Page<Stored<T>> {
    const page = this.#backend.list(kind, listCall(options));
    return { ...page, items: page.items.map((item) => decode(kind, item)) };
  }

  /**
   * Creates an object and returns it as stored.
   *
   * @throws ApiError `already-exists`, or `invalid` with its causes.
   * @throws TypeError if the object has neither a name nor a generateName.
   */
  create<T extends KubernetesObject>(kind: Kind<T>, object: T, options: WriteOptions = NO_OPTIONS): Stored<T> {
    const { name, generateName, namespace } = object.metadata ?? {};
    if (!name && !generateName) {
      throw new TypeError(`this ${describeKind(kind)} has no metadata.name`);
    }
    return decode(kind, this.#backend.create(kind, namespace || undefined, encode(kind, object), options));
  }

  /**
   * Replaces an object that was read, without its status, and returns it as stored.
   *
   * @throws ApiError `conflict` if the object has changed since it was read; `not-found`; `invalid`.
   * @throws TypeError if the object has no kind or name.
   */
  update<T extends KubernetesObject>(object: T, options: WriteOptions = NO_OPTIONS): Stored<T> {
    const kind = kindOf(object);
    return decode(kind, this.#backend.update(kind, keyOf(object), encode(kind, object), options));
  }

  /**
   * Replaces the status of an object that was read, through the status subresource, and returns the object as stored.
   *
   * @throws ApiError as {@link update} does, and `not-found` if the kind has no status subresource.
   */
  updateStatus<T extends KubernetesObject>(object: T, options: WriteOptions = NO_OPTIONS): Stored<T> {
    const kind = kindOf(object);
    return decode(kind, this.#backend.updateStatus(kind, keyOf(object), encode(kind, object), options));
  }

  /**
   * Patches an object and returns it as stored: `{ merge: … }`, `{ json: [ … ] }` or `{ apply: … }`. A patch of the
   * subresource `scale` returns the Scale.
   *
   * @throws ApiError `not-found`; `invalid`; `conflict` if another manager owns a field of an apply patch.
   */
  patch<T extends KubernetesObject>(
    kind: Kind<T>,
    key: ObjectKey,
    patch: Patch<Scale>,
    options: PatchOptions & { readonly subresource: "scale" },
  ): Stored<Scale>;
  patch<T extends KubernetesObject>(
    kind: Kind<T>,
    key: ObjectKey,
    patch: Patch<T>,
    options?: PatchOptions,
  ): Stored<T>;
  patch(kind: Kind, key: ObjectKey, patch: Patch, options: PatchOptions = NO_OPTIONS): Stored<KubernetesObject> {
    const { subresource, force = false } = options;
    const call: PatchCall = { ...patchBody(kind, key, patch), subresource, force };
    return decode(kind, this.#backend.patch(kind, key, call, options));
  }

  /**
   * Deletes an object that was read. Its uid is a precondition, so a new object of the same name is not deleted. The
   * call returns when the API server has accepted the deletion; the object stays until its finalizers are removed.
   *
   * @throws ApiError `not-found`; `conflict` if the uid differs or a precondition does not hold.
   */
  delete(object: KubernetesObject, options: DeleteOptions = NO_OPTIONS): void {
    const uid = options.uid ?? object.metadata?.uid;
    this.#backend.delete(kindOf(object), keyOf(object), uid ? { ...options, uid } : options);
  }

  /**
   * Deletes the object of a key, whatever its uid.
   *
   * @throws ApiError `not-found`; `conflict` if a precondition does not hold.
   */
  deleteKey(kind: Kind, key: ObjectKey, options: DeleteOptions = NO_OPTIONS): void {
    this.#backend.delete(kind, key, options);
  }

  /**
   * Creates or updates an object, and writes only if something changed (controller-runtime's `CreateOrUpdate`).
   * `mutate` receives the stored object, or `object` if none is stored, and sets the desired fields. An absent field,
   * `null` and an empty list or map count as equal.
   *
   * Do not set values that the API server rewrites. A Deployment without replicas, for example, gets the default of 1,
   * so removing the field writes again at each reconcile. The status is not written.
   *
   * @throws ApiError `conflict` if the object is newer than the cache; `invalid`.
   * @throws TerminalError if `mutate` changes the name or namespace.
   */
  createOrUpdate<T extends KubernetesObject>(
    kind: Kind<T>,
    object: T,
    mutate: (object: Draft<T>) => void,
  ): { object: Stored<T>; result: OperationResult } {
    const key = keyOf(object);
    let text: string;
    try {
      text = this.#backend.get(kind, key, false);
    } catch (error) {
      if (!isNotFound(error)) {
        throw error;
      }
      const draft = { ...object, metadata: { ...object.metadata } };
      mutate(draft);
      keepsItsKey(kind, key, draft);
      return { object: this.create<T>(kind, draft), result: "created" };
    }
    const stored = decode(kind, text);
    mutate(stored);
    keepsItsKey(kind, key, stored);
    const now = stringify(stored, nameOf(kind, key));
    if (now === text || semanticDeepEqual(parse(now, "the object"), parse(text, "the object"))) {
      return { object: stored, result: "unchanged" };
    }
    return { object: decode(kind, this.#backend.update(kind, key, now, NO_OPTIONS)), result: "updated" };
  }

  /**
   * Sends an HTTP request to the API server. An error status is not thrown: check `status` of the response.
   *
   * @throws TypeError if the body cannot be written as JSON.
   */
  raw(request: RawRequest): RawResponse {
    const { method, path, query = "", body, contentType, accept, cached = false } = request;
    const text = body === undefined || typeof body === "string" ? body : stringify(body, `the body of ${method} ${path}`);
    const answer = this.#backend.raw({
      method,
      path,
      query: typeof query === "string" ? query : encodeQuery(query),
      contentType,
      accept,
      body: text,
      cached,
    });
    return { ...answer, json: <T>() => parse(answer.body, `the answer to ${method} ${path}`) as T };
  }

  /**
   * Takes the API server's warnings about the calls since the last time, in order: fields that it dropped, such as
   * `unknown field "spec.colour"`, deprecated versions, remarks of webhooks and policies. The host reports each text once
   * in the plugin's log, so most plugins need not ask.
   *
   * At most 64 texts and 16 KiB are kept until they are taken; later ones are dropped. A call that the host answers itself
   * has none: a cached read, or a write that would change nothing.
   */
  takeWarnings(): string[] {
    return this.#backend.takeWarnings();
  }

  /**
   * Records an Event about an object, as `kubectl describe` shows it. `reason` and `action` are short CamelCase words,
   * e.g. `Synced` and `Update`. The host writes Events in the background, aggregated and rate limited, so a failed
   * write is not reported.
   *
   * @throws TypeError if the object has no kind or name.
   */
  event(object: KubernetesObject, type: EventType, reason: string, note: string, action = ""): void {
    const uid = object.metadata?.uid;
    this.#backend.event({ regarding: kindOf(object), key: keyOf(object), uid, type, reason, action, note });
  }

  /**
   * Returns the Plugin object's `spec.config`, or an empty object if there is none. The type parameter is not checked:
   * validate the fields that you use.
   *
   * @throws TerminalError if the config is not a JSON object.
   */
  config<T extends object = Record<string, unknown>>(): T {
    const config = parse(this.#backend.config(), "the plugin's config");
    if (typeof config !== "object" || config === null || Array.isArray(config)) {
      throw new TerminalError("the plugin's config is not a JSON object");
    }
    return config as T;
  }
}

/** Parses an object of the API server, and sets the kind, which items of a list leave out. */
function decode<T extends KubernetesObject>(kind: Kind<T>, text: string): Stored<T> {
  const object = parse(text, `what came back as ${describeKind(kind)}`) as { apiVersion?: string; kind?: string };
  if (object.apiVersion === undefined) {
    object.apiVersion = kind.apiVersion;
    object.kind = kind.kind;
  }
  return object as Stored<T>;
}

/** Writes an object for the API server, and sets the kind if the author left it out. */
function encode(kind: Kind, object: KubernetesObject): string {
  const whole = object.apiVersion && object.kind ? object : { ...object, apiVersion: kind.apiVersion, kind: kind.kind };
  return stringify(whole, `this ${describeKind(kind)}`);
}

function nameOf(kind: Kind, key: ObjectKey): string {
  return `${describeKind(kind)} ${keyText(key)}`;
}

function keepsItsKey(kind: Kind, key: ObjectKey, object: KubernetesObject): void {
  const { name, namespace } = object.metadata ?? {};
  if (name !== key.name || (namespace || undefined) !== (key.namespace || undefined)) {
    const became = namespace ? `${namespace}/${name}` : String(name);
    throw new TerminalError(`createOrUpdate: ${nameOf(kind, key)} became ${became}`);
  }
}

function listCall(options: ListOptions): ListCall {
  const { namespace, labels, fields, limit, continueToken, live = false, projection = [] } = options;
  return {
    namespace: namespace || undefined,
    labels: typeof labels === "object" ? selectorOf(labels) : labels,
    fields,
    selection: selectionOf(options),
    limit,
    continueToken,
    live,
    projection,
  };
}

function selectorOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

function selectionOf({ index, owner }: ListOptions): Selection {
  if (index && owner !== undefined) {
    throw new TypeError("a list takes either `index` or `owner`");
  }
  if (index) {
    return { type: "index", name: index.name, value: index.value };
  }
  if (owner === undefined) {
    return { type: "all" };
  }
  const uid = typeof owner === "string" ? owner : owner.metadata.uid;
  if (!uid) {
    throw new TypeError("the `owner` of a list has no uid: read it from the API server first");
  }
  return { type: "owner", uid };
}

function patchBody(kind: Kind, key: ObjectKey, patch: Patch): { type: PatchCall["type"]; body: string } {
  const what = `the patch of ${nameOf(kind, key)}`;
  if ("merge" in patch) {
    return { type: "merge", body: stringify(patch.merge, what) };
  }
  if ("json" in patch) {
    return { type: "json", body: stringify(patch.json, what) };
  }
  if ("apply" in patch) {
    return { type: "apply", body: encode(kind, patch.apply as KubernetesObject) };
  }
  throw new TypeError(`${what} is neither { merge }, { json } nor { apply }`);
}

function encodeQuery(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join("&");
}
