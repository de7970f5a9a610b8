/** The backend of a plugin: the contract's imports. */
import config from "operetta:controller/config@0.1.0";
import events from "operetta:controller/events@0.1.0";
import objects from "operetta:controller/objects@0.1.0";
import raw from "operetta:controller/raw@0.1.0";
import warnings from "operetta:controller/warnings@0.1.0";

import type { Backend, Selection } from "../backend.ts";
import { ApiError, type ApiErrorKind, type Cause } from "../errors.ts";
import type { Kind, ObjectKey } from "../object.ts";
import type { WriteOptions } from "../options.ts";

/** The error that the engine throws if an import fails; `payload` is the `types.error`. */
interface Thrown {
  payload?: {
    tag: ApiErrorKind;
    val: { code: number; reason: string; message: string; causes: Cause[]; retryAfterSeconds: number | null };
  };
}

/** Calls an import and converts its error to an ApiError. */
function call<T>(send: () => T): T {
  try {
    return send();
  } catch (error) {
    const { payload } = error as Thrown;
    if (!payload) {
      throw error;
    }
    const { tag, val } = payload;
    throw new ApiError(tag, { ...val, retryAfterSeconds: val.retryAfterSeconds ?? undefined });
  }
}

const kindOf = ({ apiVersion, kind }: Kind) => ({ apiVersion, kind });
const keyOf = ({ namespace, name }: ObjectKey) => ({ namespace: namespace ?? null, name });
const readOf = (live: boolean) => (live ? "live" : "cached");
const writeOf = ({ dryRun = false, fieldManager, strict = false }: WriteOptions) => ({
  dryRun,
  fieldManager: fieldManager ?? null,
  strict,
});

function selectionOf(selection: Selection) {
  switch (selection.type) {
    case "all":
      return { tag: "all" as const };
    case "index":
      return { tag: "by-index" as const, val: [selection.name, selection.value] as [string, string] };
    case "owner":
      return { tag: "by-owner" as const, val: selection.uid };
  }
}

export const host: Backend = {
  get: (kind, key, live) => call(() => objects.get(kindOf(kind), keyOf(key), readOf(live))),

  list(kind, options) {
    const page = call(() =>
      objects.list(kindOf(kind), {
        namespace: options.namespace ?? null,
        labels: options.labels ?? null,
        fields: options.fields ?? null,
        selection: selectionOf(options.selection),
        limit: options.limit ?? null,
        continueToken: options.continueToken ?? null,
        read: readOf(options.live),
        projection: [...options.projection],
      }),
    );
    const { items, resourceVersion, continueToken } = page;
    return continueToken ? { items, resourceVersion, continueToken } : { items, resourceVersion };
  },

  create: (kind, namespace, object, options) =>
    call(() => objects.create(kindOf(kind), namespace ?? null, object, writeOf(options))),

  update: (kind, key, object, options) =>
    call(() => objects.update(kindOf(kind), keyOf(key), object, writeOf(options))),

  updateStatus: (kind, key, object, options) =>
    call(() => objects.updateStatus(kindOf(kind), keyOf(key), object, writeOf(options))),

  patch: (kind, key, { type, body, subresource, force }, options) =>
    call(() =>
      objects.patch(
        kindOf(kind),
        keyOf(key),
        subresource ?? null,
        { tag: type, val: body },
        force,
        writeOf(options),
      ),
    ),

  delete: (kind, key, { uid, resourceVersion, gracePeriodSeconds, propagation, dryRun = false }) =>
    call(() =>
      objects.delete(kindOf(kind), keyOf(key), {
        uid: uid ?? null,
        resourceVersion: resourceVersion ?? null,
        gracePeriodSeconds: gracePeriodSeconds ?? null,
        propagation: propagation ?? null,
        dryRun,
      }),
    ),

  raw({ method, path, query, contentType, accept, body, cached }) {
    const answer = raw.send({
      method,
      path,
      query,
      contentType: contentType ?? null,
      accept: accept ?? null,
      body: body ?? null,
      cached,
    });
    return { ...answer, retryAfterSeconds: answer.retryAfterSeconds ?? undefined };
  },

  takeWarnings: () => warnings.take(),

  event: ({ regarding, key, uid, type, reason, action, note }) =>
    events.emit(
      kindOf(regarding),
      keyOf(key),
      uid ?? null,
      type === "Warning" ? "warning" : "normal",
      reason,
      action,
      note,
    ),

  config: () => config.get(),
};
