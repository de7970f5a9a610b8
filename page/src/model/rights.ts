// Rights as a line of text. The host may give a sentence, or a rule with verbs and resources.

const text = (value: unknown): string => (Array.isArray(value) ? value.map(String).join(", ") : value === undefined || value === null ? "" : String(value));

/** Returns a right as text: `list, watch deployments.apps in default`. */
export function describeRight(right: unknown): string {
  if (typeof right !== "object" || right === null) return text(right);
  const rule = right as Record<string, unknown>;
  if (typeof rule["text"] === "string") return rule["text"];
  const verbs = text(rule["verbs"] ?? rule["verb"]);
  const group = text(rule["apiGroups"] ?? rule["group"] ?? rule["apiGroup"]);
  const resources = text(rule["resources"] ?? rule["resource"] ?? rule["plural"]);
  const namespace = text(rule["namespace"]);
  if (!verbs && !resources) return JSON.stringify(right);
  return `${verbs} ${resources}${group ? `.${group}` : ""}${namespace ? ` in ${namespace}` : ""}`.trim();
}
