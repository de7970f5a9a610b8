// The filter of a kind's table, and its form in the address. The host applies namespace and labelSelector, because they make the
// answer smaller; the page applies the rest at once.

/** A filter and an order of rows. */
export interface Filter {
  namespace: string;
  labelSelector: string;
  /** Words that a row must contain; a word after `-` must be missing. */
  q: string;
  /** The chosen facets: `health:bad`, `Ready=False`. */
  facets: string[];
  /** The column that orders the rows; empty for namespace and name. */
  sort: string;
  descending: boolean;
  /** True if columns of lower priority are shown, as by `kubectl get -o wide`. */
  wide: boolean;
}

/** The filter that shows all. */
export const EVERYTHING: Filter = { namespace: "", labelSelector: "", q: "", facets: [], sort: "", descending: false, wide: false };

/** Reads the filter from the query of an address. */
export function fromQuery(query: string): Filter {
  const values = new URLSearchParams(query);
  const sort = values.get("sort") ?? "";
  return {
    namespace: values.get("namespace") ?? "",
    labelSelector: values.get("labelSelector") ?? "",
    q: values.get("q") ?? "",
    facets: values.getAll("has"),
    sort: sort.replace(/^-/, ""),
    descending: sort.startsWith("-"),
    wide: values.get("wide") === "true",
  };
}

/** Returns the query of a filter, with its `?`, or nothing for the filter that shows all. */
export function toQuery(filter: Filter): string {
  const values = new URLSearchParams();
  if (filter.namespace) values.set("namespace", filter.namespace);
  if (filter.labelSelector) values.set("labelSelector", filter.labelSelector);
  if (filter.q) values.set("q", filter.q);
  for (const facet of filter.facets) values.append("has", facet);
  if (filter.sort || filter.descending) values.set("sort", (filter.descending ? "-" : "") + filter.sort);
  if (filter.wide) values.set("wide", "true");
  const text = values.toString();
  return text && `?${text}`;
}

/** Returns the query of the host's stream for a filter. */
export function hostQuery(filter: Filter): string {
  return toQuery({ ...EVERYTHING, namespace: filter.namespace, labelSelector: filter.labelSelector });
}

/** Returns the predicate of a text filter over lower-case texts. */
export function textMatcher(q: string): (text: string) => boolean {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = words.filter((word) => !word.startsWith("-"));
  const unwanted = words.filter((word) => word.startsWith("-") && word.length > 1).map((word) => word.slice(1));
  return (text) => wanted.every((word) => text.includes(word)) && !unwanted.some((word) => text.includes(word));
}

/** Returns the group of a facet: facets of one group are alternatives. */
export function facetGroup(facet: string): string {
  return facet.split(/[:=]/, 1)[0] ?? "";
}

/** Returns the predicate of the chosen facets: one of each group. */
export function facetMatcher(chosen: string[]): (facets: readonly string[]) => boolean {
  const groups = new Map<string, Set<string>>();
  for (const facet of chosen) {
    const group = facetGroup(facet);
    groups.set(group, (groups.get(group) ?? new Set()).add(facet));
  }
  const sets = [...groups.values()];
  return (facets) => sets.every((set) => facets.some((facet) => set.has(facet)));
}

/** Returns the chosen facets with one of them toggled. */
export function toggled(chosen: string[], facet: string): string[] {
  return chosen.includes(facet) ? chosen.filter((other) => other !== facet) : [...chosen, facet];
}
