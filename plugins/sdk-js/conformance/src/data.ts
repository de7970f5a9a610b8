/** Values that must survive a round trip. */
import { canonicalQuantity } from "@operetta/sdk";
import { ConfigMap } from "@operetta/sdk/kinds";

import { type Case, type Cases, target, Widget } from "./types.ts";

declare class TextEncoder {
  encode(text: string): Uint8Array;
}

function note({ spec }: Widget): string {
  if (!spec || !("note" in spec)) {
    return "missing";
  }
  return spec.note ?? "null";
}

/** Creates a copy of the target's word under another name, and returns the word. */
function copied(one: Case, name: string): string {
  const word = one.ctx.get(ConfigMap, target(one)).data?.["word"] ?? "";
  one.ctx.create(ConfigMap, { metadata: { namespace: one.namespace, name }, data: { word } });
  return word;
}

/** Sets `touched` of the target and returns the spec as stored. */
function touched(one: Case): NonNullable<Widget["spec"]> {
  const widget = one.ctx.get(Widget, target(one));
  widget.spec = { ...widget.spec, touched: true };
  return one.ctx.update(widget).spec ?? {};
}

export const dataCases: Cases = {
  unicode: (one) => copied(one, "unicode-made"),
  big: (one) => String(new TextEncoder().encode(copied(one, "big-made")).length),

  "null-or-missing": ({ ctx, namespace }) => {
    const read = ["null-note", "no-note"].map((name) => note(ctx.get(Widget, { namespace, name })));
    const patched = ctx.patch(Widget, { namespace, name: "with-note" }, { merge: { spec: { note: null } } });
    return [...read, note(patched)].join(" ");
  },

  int64: (one) => String(touched(one).big),
  quantity: (one) => canonicalQuantity(touched(one).size ?? ""),
};
