// The kinds of the application centre, in groups: custom ones first, as they are what people come for.

import { textMatcher } from "./filter.ts";
import type { Kind } from "../api/types.ts";

/** An API group and its kinds. */
export interface KindGroup {
  group: string;
  title: string;
  custom: boolean;
  kinds: Kind[];
}

/** Reports whether the kind's objects can be listed and watched. */
function listable(kind: Kind): boolean {
  return !kind.verbs || kind.verbs.includes("list");
}

/** Returns the kinds that a text filter leaves, by group. */
export function groupKinds(kinds: Kind[], q: string): KindGroup[] {
  const matches = textMatcher(q);
  const groups = new Map<string, KindGroup>();
  for (const kind of kinds) {
    const text = `${kind.kind} ${kind.plural} ${kind.group || "core"} ${kind.custom ? "custom" : "built-in"}`.toLowerCase();
    if (!listable(kind) || !matches(text)) continue;
    const group = groups.get(kind.group) ?? { group: kind.group, title: kind.group || "core", custom: false, kinds: [] };
    group.kinds.push(kind);
    group.custom ||= kind.custom;
    groups.set(kind.group, group);
  }
  for (const group of groups.values()) group.kinds.sort((a, b) => (a.kind < b.kind ? -1 : 1));
  return [...groups.values()].sort((a, b) => Number(b.custom) - Number(a.custom) || (a.group < b.group ? -1 : 1));
}
