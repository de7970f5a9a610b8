/**
 * The conformance suite's plugin for the TypeScript SDK. Each case is a ConfigMap named after a behaviour. The plugin
 * runs the behaviour and writes its result to the ConfigMap. plugins/conformance/README.md describes each behaviour.
 */
import { type Context, controller, definePlugin, type Index, type ObjectKey, type Stored } from "@operetta/sdk";
import { ConfigMap } from "@operetta/sdk/kinds";

import { dataCases } from "./data.ts";
import { errorCases } from "./errors.ts";
import { helperCases } from "./helpers.ts";
import { otherCases } from "./other.ts";
import { readCases } from "./reads.ts";
import { resultCases } from "./results.ts";
import type { Cases } from "./types.ts";
import { writeCases } from "./writes.ts";

const indexes: Index[] = [
  { name: "colour", kind: ConfigMap, path: ".data.colour" },
  { name: "app", kind: ConfigMap, label: "app" },
  { name: "owner", kind: ConfigMap, controller: ConfigMap },
];

const cases: Cases = {
  ...readCases,
  ...writeCases,
  ...errorCases,
  ...otherCases,
  ...helperCases,
  ...dataCases,
};

export default definePlugin({
  indexes,
  controllers: [
    controller({
      name: "cases",
      for: { kind: ConfigMap, labels: "conformance=case" },
      owns: [{ kind: ConfigMap, labels: "conformance=child" }],
      watches: [
        {
          source: { kind: ConfigMap, labels: "conformance=wake", prune: [".data.pruned"] },
          map: { type: "custom", keys: woken },
        },
      ],
      ownNamespace: true,
      workers: 4,
      rateLimiter: { baseDelayMs: 5, maxDelayMs: 1_000, qps: 1_000, burst: 1_000 },
      reconcile(ctx, map) {
        const own = resultCases[map.metadata.name];
        if (own) {
          return own(ctx, map);
        }
        if (map.data?.["result"] === undefined) {
          carryOut(ctx, map);
        }
      },
    }),
  ],
});

/** Returns the keys that a ConfigMap names. The cache has pruned one of the two fields. */
function woken({ metadata, data }: ConfigMap): ObjectKey[] {
  if (data?.["fail"]) {
    throw new Error("no keys today");
  }
  const names = `${data?.["wakes"] ?? ""} ${data?.["pruned"] ?? ""}`.split(" ").filter(Boolean);
  return names.map((name) => ({ namespace: metadata?.namespace, name }));
}

function carryOut(ctx: Context, map: Stored<ConfigMap>): void {
  const { name, namespace = "" } = map.metadata;
  const behaviour = cases[name];
  let data: Record<string, string>;
  try {
    data = behaviour
      ? { result: "ok", saw: behaviour({ ctx, map, namespace, data: map.data ?? {} }) }
      : { result: `unsupported: this plugin knows no behaviour ${name}` };
  } catch (error) {
    data = { result: `failed: ${String(error)}` };
  }
  ctx.patch(ConfigMap, { namespace, name }, { merge: { data } });
}
