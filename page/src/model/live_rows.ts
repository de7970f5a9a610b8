// The rows of a kind's table, kept in order while they change. A refresh costs one pass over the rows and a sort of the changed
// ones, so 100,000 rows can change many times a second. Nothing here knows the browser.

import { parseDuration } from "./age.ts";
import { facetMatcher, textMatcher, type Filter } from "./filter.ts";
import type { Column, Row } from "../api/types.ts";

/** A row with what sorting and filtering need of it. It does not change: a change of the object makes a new one. */
export interface Held {
  readonly row: Row;
  /** Lower-case text of all that the row shows. */
  readonly text: string;
  /** The row's facets: `health:bad`, `Ready=False`. */
  readonly facets: readonly string[];
  /** The restart of the stream since which it is known. */
  readonly generation: number;
  /** True once the row was changed or deleted. */
  gone: boolean;
  /** The value that orders the rows, by the current column. */
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

function compare(a: Held, b: Held): number {
  if (a.key !== b.key) {
    if (typeof a.key === typeof b.key) return a.key < b.key ? -1 : 1;
    return typeof a.key === "number" ? -1 : 1;
  }
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
}

/** Returns the value by which a row is ordered in a column. */
function sortKey(row: Row, sort: string, columns: Column[]): string | number {
  if (sort === NAME) return row.name;
  if (sort === AGE) return -(Date.parse(row.created ?? "") || 0);
  if (sort === HEALTH) return HEALTH_ORDER[row.health ?? "unknown"] ?? 2;
  const at = columns.findIndex((column) => column.name === sort);
  if (at < 0) return "";
  const cell = row.cells[at];
  if (typeof cell === "number") return cell;
  const text = cellText(cell);
  const type = columns[at]?.type;
  if (type === "integer" || type === "number") return Number(text) || 0;
  if (type === "date") return parseDuration(text) ?? text;
  return text.toLowerCase();
}

function hold(row: Row, generation: number): Held {
  const facets = [`health:${row.health ?? "unknown"}`];
  for (const [type, status] of Object.entries(row.conditions ?? {})) facets.push(`${type}=${status}`);
  const path = `${row.namespace ?? ""}/${row.name}`;
  return { row, text: `${path} ${row.cells.map(cellText).join(" ")}`.toLowerCase(), facets, generation, gone: false, key: "", path };
}

/** Merges two ordered lists. */
function merge(a: Held[], b: Held[]): Held[] {
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

/** The rows of one stream. */
export class LiveRows {
  #byUid = new Map<string, Held>();
  #ordered: Held[] = [];
  #added: Held[] = [];
  #columns: Column[] = [];
  #sort = "";
  #descending = false;
  #generation = 0;

  /** Sets the printer columns. */
  columns(columns: Column[]): void {
    this.#columns = columns;
    this.#order(this.#sort, this.#descending);
  }

  /** Adds and replaces rows. */
  upsert(rows: Row[]): void {
    for (const row of rows) {
      const before = this.#byUid.get(row.uid);
      if (before) before.gone = true;
      const held = hold(row, this.#generation);
      held.key = sortKey(row, this.#sort, this.#columns);
      this.#byUid.set(row.uid, held);
      this.#added.push(held);
    }
  }

  /** Removes rows. */
  remove(uids: string[]): void {
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

  /** Returns the number of rows. */
  get size(): number {
    return this.#byUid.size;
  }

  /** Returns the rows that pass a filter, in its order. */
  view(filter: Filter): RowsView {
    if (filter.sort !== this.#sort || filter.descending !== this.#descending) this.#order(filter.sort, filter.descending);
    this.#refresh();
    const matchesText = textMatcher(filter.q);
    const matchesFacets = facetMatcher(filter.facets);
    const counts = new Map<string, number>();
    const rows: Held[] = [];
    for (const held of this.#ordered) {
      if (filter.q && !matchesText(held.text)) continue;
      for (const facet of held.facets) counts.set(facet, (counts.get(facet) ?? 0) + 1);
      if (filter.facets.length === 0 || matchesFacets(held.facets)) rows.push(held);
    }
    if (this.#descending) rows.reverse();
    return { rows, total: this.#byUid.size, counts };
  }

  #order(sort: string, descending: boolean): void {
    this.#sort = sort;
    this.#descending = descending;
    this.#ordered = [...this.#byUid.values()];
    for (const held of this.#ordered) held.key = sortKey(held.row, sort, this.#columns);
    this.#ordered.sort(compare);
    this.#added = [];
  }

  #refresh(): void {
    const added = this.#added.filter((held) => !held.gone).sort(compare);
    this.#added = [];
    const kept = this.#ordered.filter((held) => !held.gone);
    this.#ordered = added.length > 0 ? merge(kept, added) : kept;
  }
}
