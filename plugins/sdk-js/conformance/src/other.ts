/** Raw requests, Events, the log and the configuration. */
import { ConfigMap } from "@operetta/sdk/kinds";

import { type Case, type Cases, target } from "./types.ts";

const collection = ({ namespace }: Case) => `/api/v1/namespaces/${namespace}/configmaps`;

export const otherCases: Cases = {
  "raw-get": (one) => {
    const answer = one.ctx.raw({ method: "GET", path: `${collection(one)}/${target(one).name}` });
    return `${answer.status} ${answer.json<ConfigMap>().data?.["word"]}`;
  },

  "raw-post": (one) => {
    const key = { namespace: one.namespace, name: "raw-made" };
    const body = { apiVersion: "v1", kind: "ConfigMap", metadata: key };
    const { status } = one.ctx.raw({ method: "POST", path: collection(one), body });
    return `${status} ${one.ctx.get(ConfigMap, key).metadata.name}`;
  },

  "raw-error": (one) => {
    const answer = one.ctx.raw({ method: "GET", path: `${collection(one)}/no-such-object` });
    return `${answer.status} ${answer.json<{ reason: string }>().reason}`;
  },

  "raw-watch": (one) => {
    const answer = one.ctx.raw({ method: "GET", path: collection(one), query: { watch: "true" } });
    return `${answer.status} ${answer.json<{ reason: string }>().reason}`;
  },

  event: ({ ctx, map }) => {
    ctx.event(map, "Normal", "Conformed", "it works", "Test");
    return "emitted";
  },

  log: () => {
    console.info("a line for conformance", { colour: "red" });
    return "logged";
  },

  config: ({ ctx }) => {
    const { word } = ctx.config<{ word?: string }>();
    if (word === undefined) {
      throw new Error("the config has no word");
    }
    return word;
  },
};
