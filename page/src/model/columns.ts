// The widths of a table's columns, in characters. They come from the first rows, so that a table does not change its shape while
// it is scrolled.

import { cellText } from "./live_rows.ts";
import type { Column, Row } from "../api/types.ts";

/** The number of rows that are looked at. */
const SAMPLE = 300;
/** The width of an average character, in widths of a digit, and the room at the sides of a cell. */
const AVERAGE = 0.9;
const PADDING = 4;
const MIN = 6;
const MAX = 36;
const MAX_NAME = 48;

/** A column to show. */
export interface ShownColumn {
  title: string;
  /** The cell's index in a row's cells. */
  cell: number;
  type: string;
  width: number;
}

function width(title: string, texts: Iterable<string>, max: number): number {
  let longest = title.length;
  for (const text of texts) longest = Math.max(longest, text.length);
  return Math.min(max, Math.max(MIN, Math.ceil(longest * AVERAGE) + PADDING));
}

/** The widths of the columns that every kind has. */
export function ownWidths(rows: Row[]): { name: number; namespace: number } {
  const sample = rows.slice(0, SAMPLE);
  return {
    name: Math.max(18, width("Name", sample.map((row) => row.name), MAX_NAME)),
    namespace: width("Namespace", sample.map((row) => row.namespace ?? ""), 32),
  };
}

/** Returns the printer columns to show. Name, Namespace and Age are left out: every kind has them. `wide` adds those of lower priority. */
export function shownColumns(columns: Column[], rows: Row[], wide: boolean): ShownColumn[] {
  const sample = rows.slice(0, SAMPLE);
  return columns.flatMap((column, cell) => {
    if (column.name === "Name" || column.name === "Namespace" || column.name === "Age") return [];
    if (!wide && (column.priority ?? 0) > 0) return [];
    const texts = sample.map((row) => cellText(row.cells[cell]));
    return [{ title: column.name, cell, type: column.type ?? "string", width: width(column.name, texts, MAX) }];
  });
}

/** Reports whether a type's cells are numbers, which are aligned to the right. */
export function isNumeric(type: string): boolean {
  return type === "integer" || type === "number";
}
