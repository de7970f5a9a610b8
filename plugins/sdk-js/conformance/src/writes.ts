/** Writes: create, update, patches and deletions, with their options. */
import { ConfigMap, Deployment } from "@operetta/sdk/kinds";

import { argument, type Cases, errorOf, target, Widget, words } from "./types.ts";

export const writeCases: Cases = {
  create: (one) => {
    const { ctx, namespace } = one;
    const metadata = { namespace, name: "create-made" };
    return ctx.create(ConfigMap, { metadata, data: { word: argument(one, "word") } }).metadata.uid;
  },

  "create-dry-run": ({ ctx, namespace }) =>
    ctx.create(ConfigMap, { metadata: { namespace, name: "dry-made" } }, { dryRun: true }).metadata.name,

  "create-strict": ({ ctx, namespace }) => {
    const spec: Widget["spec"] & { wrong: string } = { wrong: "field" };
    const widget = { metadata: { namespace, name: "strict-made" }, spec };
    return words(errorOf(() => ctx.create(Widget, widget, { strict: true })));
  },

  "create-warning": ({ ctx, namespace }) => {
    const spec: Widget["spec"] & { wrong: string } = { wrong: "field" };
    ctx.create(Widget, { metadata: { namespace, name: "warned-made" }, spec });
    return ctx.takeWarnings().join("; ");
  },

  update: (one) => {
    const map = one.ctx.get(ConfigMap, target(one));
    map.data = { ...map.data, word: "updated" };
    return one.ctx.update(map).data?.["word"] ?? "";
  },

  "update-status": (one) => {
    const widget = one.ctx.get(Widget, target(one));
    widget.status = { ...widget.status, phase: "ready" };
    widget.spec = { ...widget.spec, touched: true };
    const { status, spec } = one.ctx.updateStatus(widget);
    return `${status?.phase} ${spec?.touched ?? false}`;
  },

  "patch-merge": (one) => {
    const map = one.ctx.patch(ConfigMap, target(one), { merge: { data: { word: "merged", other: null } } });
    const data = Object.entries(map.data ?? {}).map(([name, value]) => `${name}=${value}`);
    return data.sort().join(",");
  },

  "patch-json": (one) => {
    const json = [{ op: "replace", path: "/data/word", value: "patched" }] as const;
    return one.ctx.patch(ConfigMap, target(one), { json }).data?.["word"] ?? "";
  },

  "patch-apply": (one) => {
    const apply = (force: boolean) =>
      one.ctx.patch(ConfigMap, target(one), { apply: { data: { word: "applied" }, metadata: target(one) } }, { force });
    const refused = words(errorOf(() => apply(false)));
    return `${refused}; ${apply(true).data?.["word"]}`;
  },

  "patch-scale": (one) => {
    const scale = one.ctx.patch(Deployment, target(one), { merge: { spec: { replicas: 3 } } }, { subresource: "scale" });
    return String(scale.spec?.replicas);
  },

  delete: (one) => {
    one.ctx.deleteKey(ConfigMap, target(one));
    return "deleted";
  },

  "delete-precondition": (one) => {
    const uid = "00000000-0000-0000-0000-000000000000";
    return words(errorOf(() => one.ctx.deleteKey(ConfigMap, target(one), { uid })));
  },

  "delete-orphan": (one) => {
    one.ctx.deleteKey(ConfigMap, target(one), { propagation: "orphan" });
    return "deleted";
  },
};
