/** The check for misspelt properties. JavaScript drops them: a controller with `own` instead of `owns` runs and never watches. */

/** The properties of each object in a definition. */
export const KEYS = {
  plugin: ["controllers", "indexes"],
  controller: [
    "name", "for", "owns", "watches", "finalizers", "workers", "resyncSeconds", "rateLimiter", "ownNamespace", "eventFilters",
    "reconcile", "whenGone", "reconcileKey",
  ],
  source: ["kind", "labels", "fields", "predicates", "prune", "ownNamespace"],
  watch: ["source", "map"],
  rateLimiter: ["baseDelayMs", "maxDelayMs", "qps", "burst"],
  index: ["name", "kind", "path", "label", "controller"],
  owner: ["type", "all"],
  "same-name": ["type"],
  "field-path": ["type", "path", "namespacePath"],
  custom: ["type", "keys"],
} as const;

/**
 * Checks that a part of a definition has no other properties.
 *
 * @throws TypeError if it has, with the property that was probably meant.
 */
export function checkKeys(part: object, what: keyof typeof KEYS, at: string): void {
  const known: readonly string[] = KEYS[what];
  const unknown = Object.keys(part).find((key) => !known.includes(key));
  if (unknown === undefined) {
    return;
  }
  const closest = known.map((key) => ({ key, distance: distance(key, unknown) })).sort((a, b) => a.distance - b.distance)[0];
  const meant = closest && closest.distance <= 2 ? `; did you mean ${JSON.stringify(closest.key)}?` : "";
  throw new TypeError(`${at} has an unknown property ${JSON.stringify(unknown)}${meant}; the properties are ${known.join(", ")}`);
}

/** Returns the number of characters to insert, delete or replace (Levenshtein). */
function distance(one: string, other: string): number {
  let row = [...other, ""].map((_, i) => i);
  for (const [i, character] of [...one].entries()) {
    const above = row;
    row = [i + 1];
    for (const [j, another] of [...other].entries()) {
      const replaced = (above[j] ?? 0) + (character === another ? 0 : 1);
      row.push(Math.min(replaced, (above[j + 1] ?? 0) + 1, (row[j] ?? 0) + 1));
    }
  }
  return row.at(-1) ?? 0;
}
