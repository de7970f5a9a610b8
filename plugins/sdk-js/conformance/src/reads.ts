/** Reads: get and list, cached and live, with their options. */
import type { Stored } from "@operetta/sdk";
import { ConfigMap } from "@operetta/sdk/kinds";

import { argument, type Case, type Cases, errorOf, target } from "./types.ts";

const names = (maps: Stored<ConfigMap>[]) => maps.map((map) => map.metadata.name).join(",");
const word = (map: ConfigMap) => map.data?.["word"] ?? "";

export const readCases: Cases = {
  "get-cached": (one) => word(one.ctx.get(ConfigMap, target(one))),
  "get-pruned": (one) => one.ctx.get(ConfigMap, target(one)).data?.["pruned"] ?? "",
  "get-live": (one) => word(one.ctx.get(ConfigMap, target(one), { live: true })),

  "list-labels": (one) => {
    const { ctx, namespace } = one;
    return names(ctx.list(ConfigMap, { namespace, labels: argument(one, "selector") }));
  },

  "list-fields": (one) => {
    const { ctx, namespace } = one;
    return names(ctx.list(ConfigMap, { namespace, fields: `metadata.name=${target(one).name}` }));
  },

  "list-empty": (one) => {
    const { ctx, namespace } = one;
    return String(ctx.list(ConfigMap, { namespace, labels: argument(one, "selector") }).length);
  },

  "list-paged": (one) => {
    const options = { namespace: one.namespace, labels: argument(one, "selector"), live: true, limit: 2 };
    const found: string[] = [];
    let pages = 0;
    for (let token: string | undefined, first = true; first || token; first = false) {
      const page = one.ctx.listPage(ConfigMap, token ? { ...options, continueToken: token } : options);
      found.push(...page.items.map((map) => map.metadata.name));
      pages += 1;
      token = page.continueToken;
    }
    return `${found.join(",")} ${pages}`;
  },

  "list-index": (one) => {
    const { ctx, namespace } = one;
    return names(ctx.list(ConfigMap, { namespace, index: { name: "colour", value: argument(one, "colour") } }));
  },

  "list-label-index": (one) => {
    const { ctx, namespace } = one;
    return names(ctx.list(ConfigMap, { namespace, index: { name: "app", value: argument(one, "app") } }));
  },

  "list-owner-index": (one) => {
    const { ctx, namespace } = one;
    return names(ctx.list(ConfigMap, { namespace, index: { name: "owner", value: argument(one, "owner") } }));
  },

  "list-owner": (one) => {
    const { ctx, namespace } = one;
    return names(ctx.list(ConfigMap, { namespace, owner: argument(one, "uid") }));
  },

  "list-projection": (one) => {
    const { ctx, namespace } = one;
    const maps = ctx.list(ConfigMap, { namespace, labels: argument(one, "selector"), projection: [".data.word"] });
    const shown = maps.map((map) => `${map.metadata.name}=${word(map)}`).join(",");
    return `${shown} ${maps.some((map) => map.data?.["other"] !== undefined)}`;
  },

  "read-own-write": readOwnWrite,
};

function readOwnWrite({ ctx, namespace }: Case): string {
  const key = { namespace, name: "read-own-write-made" };
  const labels = { conformance: "made" };
  ctx.create(ConfigMap, { metadata: { ...key, labels }, data: { word: "1" } });
  const made = ctx.get(ConfigMap, key);
  const first = word(made);
  ctx.update({ ...made, data: { word: "2" } });
  const second = word(ctx.get(ConfigMap, key));
  const listed = ctx
    .list(ConfigMap, { namespace, labels })
    .some((map) => map.metadata.name === key.name && word(map) === "2");
  ctx.deleteKey(ConfigMap, key);
  return [first, second, listed, errorOf(() => ctx.get(ConfigMap, key)).kind].join(" ");
}
