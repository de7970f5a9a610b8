// Rights as a line of text.

import type { MissingRight } from "../api/types.ts";

/** Returns a right as text: `create deployments.apps in default`. */
export function describeRight({ verb, group, resource, path, namespace, name }: MissingRight): string {
  const what = path || `${resource ?? ""}${group ? `.${group}` : ""}${name ? ` "${name}"` : ""}`;
  return `${verb} ${what}${path ? "" : ` in ${namespace ?? "all namespaces"}`}`;
}
