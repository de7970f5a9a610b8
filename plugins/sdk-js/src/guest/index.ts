/**
 * The exports of a plugin. Importing this module also defines `console` and other globals that the engine lacks, so the
 * build's entry imports it before the author's modules.
 */
import "./web.ts";

import { Context } from "../context.ts";
import { Plugin } from "../plugin.ts";
import type { Result } from "../result.ts";
import { startLog } from "./console.ts";
import { failureOf } from "./failure.ts";
import { host } from "./host.ts";

/** The contract's `request`. */
interface Request {
  controller: string;
  key: { namespace: string | null; name: string };
  retries: number;
  reconcileId: string;
}

/** The contract's `action`. */
type Action = { tag: "done" } | { tag: "requeue" } | { tag: "requeue-after-ms"; val: number };

/** The contract's `reconciler`. It throws a `failure`. */
export interface Reconciler {
  describe(): string;
  reconcile(request: Request): Action;
}

/** The contract's `mapper`. */
export interface Mapper {
  mapEvent(event: {
    controller: string;
    kind: { apiVersion: string; kind: string };
    object: string;
    old: string | null | undefined;
  }): { namespace: string | undefined; name: string }[];
}

/** Returns the `mapper` of a plugin. */
export function exportMapper(plugin: Plugin): Mapper {
  return {
    mapEvent({ controller, kind, object, old }) {
      startLog();
      try {
        const keys = plugin.map({ controller, kind, object, old: old ?? undefined });
        return keys.map(({ namespace, name }) => ({ namespace, name }));
      } catch (error) {
        throw failureOf(error).val;
      }
    },
  };
}

/** The error by which the build learns that a plugin needs the world with a mapper; it then starts again. */
export const NEEDS_MAPPER = "the plugin needs the world mapping-plugin";

/**
 * Returns the `reconciler` of a plugin.
 *
 * @throws TypeError if the value is not a plugin.
 * @throws Error if the plugin needs a mapper and the world has none.
 */
export function exportPlugin(plugin: unknown, world = "plugin"): Reconciler {
  if (!(plugin instanceof Plugin)) {
    throw new TypeError("the plugin's module has no default export that definePlugin() made");
  }
  if (plugin.maps && world === "plugin") {
    throw new Error(NEEDS_MAPPER);
  }
  return {
    describe: () => plugin.manifest,
    reconcile({ controller, key, retries, reconcileId }) {
      startLog();
      const { namespace, name } = key;
      const request = { controller, key: namespace ? { namespace, name } : { name }, retries, reconcileId };
      let result: Result;
      try {
        result = plugin.reconcile(new Context(host, request));
      } catch (error) {
        throw failureOf(error);
      }
      return result.type === "requeue-after" ? { tag: "requeue-after-ms", val: result.milliseconds } : { tag: result.type };
    },
  };
}
