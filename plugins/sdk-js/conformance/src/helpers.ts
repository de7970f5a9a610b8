/** Helpers: create-or-update and owner references. The finalizer helper is in results.ts. */
import { setControllerReference } from "@operetta/sdk";
import { ConfigMap } from "@operetta/sdk/kinds";

import type { Cases } from "./types.ts";

export const helperCases: Cases = {
  "create-or-update": ({ ctx, namespace }) =>
    ["1", "1", "2"]
      .map((word) => {
        const metadata = { namespace, name: "cou-made" };
        return ctx.createOrUpdate(ConfigMap, { metadata }, (map) => {
          map.data = { word };
        }).result;
      })
      .join(" "),

  "owner-reference": ({ ctx, map, namespace }) => {
    const child: ConfigMap = { metadata: { namespace, name: "owned-made", labels: { conformance: "child" } } };
    setControllerReference(map, child);
    ctx.create(ConfigMap, child);
    return "created";
  },
};
