// The rows of a kind's table, kept in order while they change. A refresh costs one pass over the rows and a sort of the changed
// ones, so 100,000 rows can change many times a second. Nothing here knows the browser.

import { parseDuration } from "./age.ts";
import { facetMatcher, textMatcher, type Filter } from "./filter.ts";
import type { Column, Row } from "../api/types.ts";

/** The facets of a row: `health:bad`, `Ready=False`. Rows with the same facets share one, so counting them is cheap. */
interface Facets {
  readonly names: readonly string[];
  /** Used by one count at a time. */
  rows: number;
  chosen: boolean;
}

/** A row with what sorting and filtering need of it. It does not change: a change of the object makes a new one. */
export interface Held {
  readonly row: Row;
  /** The row as the host sent it: what a plugin makes of the object is not in it. */
  readonly sent: Row;
  /** Lower-case text of all that the row shows. */
  readonly text: string;
  readonly facets: Facets;
  /** The restart of the stream since which it is known. */
  readonly generation: number;
  /** True once the row was changed or deleted. */
  gone: boolean;
  /** The value that orders the rows, by the current column: of all rows a number, or of all a string. */
  key: string | number;
  /** Orders rows of equal keys, and the table without a column. */
  readonly path: string;
}

/** The rows to show. */
export interface RowsView {
  rows: Held[];
  /** All rows, without the filter. */
  total: number;
  /** The number of rows with each facet, of those that the text filter leaves. */
  counts: Map<string, number>;
}

/** The columns by which rows can be ordered that are no printer columns. */
export const NAME = "Name";
export const AGE = "Age";
export const HEALTH = "Health";

const HEALTH_ORDER: Record<string, number> = { bad: 0, progressing: 1, unknown: 2, ok: 3 };

/** Returns the text of a cell. */
export function cellText(cell: unknown): string {
  if (cell === null || cell === undefined) return "";
  return typeof cell === "object" ? JSON.stringify(cell) : String(cell);
}

type Compare = (a: Held, b: Held) => number;

const byPath: Compare = (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0);
const byKey: Compare = (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
const byKeyThenPath: Compare = (a, b) => byKey(a, b) || byPath(a, b);

/** Returns the value by which a row is ordered in a column. */
function sortKey(row: Row, sort: string, columns: Column[]): string | number {
  if (sort === NAME) return row.name;
  if (sort === AGE) return -(Date.parse(row.created ?? "") || 0);
  if (sort === HEALTH) return HEALTH_ORDER[row.health ?? "unknown"] ?? 2;
  const at = columns.findIndex((column) => column.name === sort);
  if (at < 0) return "";
  const text = cellText(row.cells[at]);
  const type = columns[at]?.type;
  if (type === "integer" || type === "number") return text === "" ? -Infinity : Number(text) || 0;
  if (type === "date") return parseDuration(text) ?? Infinity;
  return text.toLowerCase();
}

/** Merges two ordered lists. */
function merge(a: Held[], b: Held[], compare: Compare): Held[] {
  const all: Held[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const left = a[i] as Held;
    const right = b[j] as Held;
    if (compare(left, right) <= 0) {
      all.push(left);
      i += 1;
    } else {
      all.push(right);
      j += 1;
    }
  }
  while (i < a.length) all.push(a[i++] as Held);
  while (j < b.length) all.push(b[j++] as Held);
  return all;
}

/** Returns the ordered rows without those that are gone, and with others. */
function renewed(rows: Held[], added: Held[], compare: Compare): Held[] {
  const kept = rows.filter((held) => !held.gone);
  return added.length > 0 ? merge(kept, [...added].sort(compare), compare) : kept;
}

/** The rows of one stream. */
export class LiveRows {
  #byUid = new Map<string, Held>();
  /** All rows by path. */
  #paths: Held[] = [];
  /** All rows by the column; the same list as `#paths` without one. */
  #ordered: Held[] = this.#paths;
  #added: Held[] = [];
  /** True if rows were added or are gone since the last refresh. */
  #changed = false;
  #facets = new Map<string, Facets>();
  #columns: Column[] = [];
  #sort = "";
  #generation = 0;
  /** The paths of the objects whose reconciles fail. */
  #failing = new Set<string>();

  /** Sets the printer columns. */
  columns(columns: Column[]): void {
    this.#columns = columns;
    this.#order(this.#sort);
  }

  /** Adds and replaces rows. */
  upsert(rows: Row[]): void {
    for (const row of rows) this.#put(row, this.#generation);
  }

  /** Sets which objects fail, as namespace/name: they are unhealthy, whatever their rows say. */
  failing(paths: string[]): void {
    const before = this.#failing;
    this.#failing = new Set(paths);
    const changed = [...this.#byUid.values()].filter(({ path }) => before.has(path) !== this.#failing.has(path));
    // A row of an old list stays one.
    for (const { sent, generation } of changed) this.#put(sent, generation);
  }

  #put(row: Row, generation: number): void {
    this.#changed = true;
    const before = this.#byUid.get(row.uid);
    if (before) before.gone = true;
    const held = this.#hold(row, generation);
    this.#byUid.set(row.uid, held);
    this.#added.push(held);
  }

  /** Removes rows. */
  remove(uids: string[]): void {
    this.#changed = true;
    for (const uid of uids) {
      const held = this.#byUid.get(uid);
      if (held) held.gone = true;
      this.#byUid.delete(uid);
    }
  }

  /** Begins a new list. The rows of the old one stay until `synced`, so that the table does not empty for a moment. */
  restart(): void {
    this.#generation += 1;
  }

  /** Ends a list: rows that were not in it are gone. */
  synced(): void {
    const old = [...this.#byUid.values()].filter((held) => held.generation !== this.#generation);
    this.remove(old.map((held) => held.row.uid));
  }

  /** Returns the rows that pass a filter, in its order. */
  view(filter: Filter): RowsView {
    this.#refresh();
    if (filter.sort !== this.#sort) this.#order(filter.sort);
    const matchesText = textMatcher(filter.q);
    const matchesFacets = facetMatcher(filter.facets);
    for (const facets of this.#facets.values()) {
      facets.rows = 0;
      facets.chosen = matchesFacets(facets.names);
    }
    const rows: Held[] = [];
    for (const held of this.#ordered) {
      if (filter.q && !matchesText(held.text)) continue;
      held.facets.rows += 1;
      if (held.facets.chosen) rows.push(held);
    }
    if (filter.descending) rows.reverse();
    return { rows, total: this.#byUid.size, counts: this.#counts() };
  }

  #counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { names, rows } of this.#facets.values()) {
      if (rows > 0) for (const name of names) counts.set(name, (counts.get(name) ?? 0) + rows);
    }
    return counts;
  }

  #hold(sent: Row, generation: number): Held {
    const path = `${sent.namespace ?? ""}/${sent.name}`;
    const row: Row = this.#failing.has(path) ? { ...sent, health: "bad" } : sent;
    const text = `${path} ${row.cells.map(cellText).join(" ")}`.toLowerCase();
    return { row, sent, text, facets: this.#facetsOf(row), generation, gone: false, key: sortKey(row, this.#sort, this.#columns), path };
  }

  #facetsOf(row: Row): Facets {
    const names = [`health:${row.health ?? "unknown"}`];
    for (const [type, status] of Object.entries(row.conditions ?? {})) names.push(`${type}=${status}`);
    const key = names.join("\n");
    const known = this.#facets.get(key) ?? { names, rows: 0, chosen: false };
    this.#facets.set(key, known);
    return known;
  }

  /** Orders by another column. Sorting is stable, and the rows by path are a good begin: few columns differ from row to row. */
  #order(sort: string): void {
    this.#refresh();
    this.#sort = sort;
    for (const held of this.#paths) held.key = sortKey(held.row, sort, this.#columns);
    this.#ordered = sort === "" ? this.#paths : [...this.#paths].sort(byKey);
  }

  #refresh(): void {
    if (!this.#changed) return;
    this.#changed = false;
    const added = this.#added.filter((held) => !held.gone);
    this.#added = [];
    this.#paths = renewed(this.#paths, added, byPath);
    this.#ordered = this.#sort === "" ? this.#paths : renewed(this.#ordered, added, byKeyThenPath);
  }
}
