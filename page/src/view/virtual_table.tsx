// A table of any length: only the rows in sight are rendered. It is a grid with the focus on rows: arrow keys, PageUp, PageDown,
// Home and End move, Enter opens. aria-rowcount and aria-rowindex tell a screen reader where it is.

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { moved, scrollToShow, windowAt, type Window } from "../model/window.ts";
import { go } from "./navigation.tsx";

/** A column of a virtual table. */
export interface VirtualColumn<T> {
  /** The name by which rows are ordered; without it the column cannot order. */
  sort?: string;
  title: string;
  /** The width in characters. */
  width: number;
  numeric?: boolean;
  cell: (row: T) => ComponentChildren;
  /** The whole text, if the cell may be cut. */
  full?: (row: T) => string;
}

/** The properties of a virtual table. */
export interface VirtualTableProps<T> {
  label: string;
  columns: VirtualColumn<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  href: (row: T) => string;
  sort: string;
  descending: boolean;
  onSort: (sort: string) => void;
}

/** Returns the height of a row in pixels: 1.75rem, as in table.css. */
function rowHeightNow(): number {
  return 1.75 * (parseFloat(getComputedStyle(document.documentElement).fontSize) || 16);
}

/** Follows the scroll position of an element, and returns the rows to render. */
function useWindow(rows: number, rowHeight: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<Window>({ first: 0, end: Math.min(rows, 60) });
  const update = () => {
    const element = ref.current;
    if (!element) return;
    const next = windowAt(element.scrollTop, element.clientHeight, rowHeight, rows);
    setShown((old) => (old.first === next.first && old.end === next.end ? old : next));
  };
  useLayoutEffect(update, [rows, rowHeight]);
  useEffect(() => {
    if (!ref.current) return undefined;
    const observer = new ResizeObserver(update);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [rows, rowHeight]);
  return { ref, shown: { first: Math.min(shown.first, rows), end: Math.min(shown.end, rows) }, update };
}

/** The width of the first column on narrow screens, where it must leave room for the others, in characters. */
const NARROW_FIRST = 20;

/** Returns the widths of the columns in characters. */
function useWidths(columns: { width: number }[]): number[] {
  const query = "(max-width: 40rem)";
  const [narrow, setNarrow] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => setNarrow(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return columns.map((column, i) => (i === 0 && narrow ? Math.min(NARROW_FIRST, column.width) : column.width));
}

/** Returns a function that renders a row, or returns what it rendered before for the same row: preact then skips it. */
function useRendered<T>(columns: unknown): (row: T, variant: string, render: () => VNode) => VNode {
  const cache = useRef({ columns, before: new Map<T, [string, VNode]>(), now: new Map<T, [string, VNode]>() });
  const held = cache.current;
  // Only the rows of the last render are kept.
  held.before = held.columns === columns ? held.now : new Map();
  held.now = new Map();
  held.columns = columns;
  return (row, variant, render) => {
    const known = held.before.get(row);
    const vnode = known?.[0] === variant ? known[1] : render();
    held.now.set(row, [variant, vnode]);
    return vnode;
  };
}

/** A table of any length. */
export function VirtualTable<T>(props: VirtualTableProps<T>) {
  const rowHeight = rowHeightNow();
  const widths = useWidths(props.columns);
  const { ref, shown, update } = useWindow(props.rows.length, rowHeight);
  const [active, setActive] = useState(0);
  const focusNext = useRef(false);
  const rendered = useRendered<T>(props.columns);
  const current = Math.min(active, Math.max(0, props.rows.length - 1));

  useLayoutEffect(() => {
    if (!focusNext.current) return;
    focusNext.current = false;
    ref.current?.querySelector<HTMLElement>(`tr[data-row="${current}"]`)?.focus({ preventScroll: true });
  });

  const onKeyDown = (event: KeyboardEvent) => {
    const element = ref.current;
    if (!element || event.ctrlKey || event.metaKey || event.altKey || !(event.target as Element).closest("tbody")) return;
    const row = props.rows[current];
    if (event.key === "Enter" && row !== undefined && !(event.target as Element).closest("a")) go(props.href(row));
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      element.scrollBy({ left: event.key === "ArrowLeft" ? -80 : 80 });
      event.preventDefault();
    }
    const page = Math.max(1, Math.floor(element.clientHeight / rowHeight) - 2);
    const to = moved(event.key, current, props.rows.length, page);
    if (to === undefined) return;
    event.preventDefault();
    element.scrollTop = scrollToShow(to, element.scrollTop, element.clientHeight, rowHeight, rowHeight);
    focusNext.current = true;
    setActive(to);
    update();
  };

  return (
    <div class="virtual" style={{ "--content": `${(props.rows.length + 1) * rowHeight + 2}px` }} ref={ref} onScroll={update} onKeyDown={onKeyDown}>
      <table role="grid" aria-label={props.label} aria-rowcount={props.rows.length + 1} style={{ minWidth: `${widths.reduce((sum, width) => sum + width, 0)}ch` }}>
        <colgroup>
          {props.columns.map((column, i) => (
            <col key={column.title} style={{ width: `${widths[i]}ch` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {props.columns.map((column) => (
              <HeaderCell key={column.title} column={column} sort={props.sort} descending={props.descending} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Spacer rows={shown.first} rowHeight={rowHeight} />
          {props.rows.slice(shown.first, shown.end).map((row, i) => {
            const at = shown.first + i;
            const focusable = at === current || (i === 0 && (current < shown.first || current >= shown.end));
            return rendered(row, `${at} ${focusable}`, () => (
              <BodyRow key={props.rowKey(row)} row={row} at={at} columns={props.columns} href={props.href} focusable={focusable} onFocus={() => setActive(at)} />
            ));
          })}
          <Spacer rows={props.rows.length - shown.end} rowHeight={rowHeight} />
        </tbody>
      </table>
    </div>
  );
}

/** The height of rows that are not rendered. */
function Spacer({ rows, rowHeight }: { rows: number; rowHeight: number }) {
  return rows > 0 ? <tr class="spacer" aria-hidden="true" style={{ height: `${rows * rowHeight}px` }} /> : null;
}

function HeaderCell<T>(props: { column: VirtualColumn<T>; sort: string; descending: boolean; onSort: (sort: string) => void }) {
  const { column } = props;
  const sorted = column.sort !== undefined && column.sort === props.sort;
  return (
    <th scope="col" class={column.numeric ? "numeric" : undefined} aria-sort={sorted ? (props.descending ? "descending" : "ascending") : undefined}>
      {column.sort === undefined ? (
        column.title
      ) : (
        <button type="button" class="sort" onClick={() => props.onSort(column.sort ?? "")}>
          {column.title}
          <span class="arrow" aria-hidden="true">
            {sorted ? (props.descending ? "↓" : "↑") : ""}
          </span>
        </button>
      )}
    </th>
  );
}

function BodyRow<T>(props: { row: T; at: number; columns: VirtualColumn<T>[]; href: (row: T) => string; focusable: boolean; onFocus: () => void }) {
  const { row, columns } = props;
  return (
    <tr data-row={props.at} aria-rowindex={props.at + 2} tabIndex={props.focusable ? 0 : -1} onFocus={props.onFocus}>
      {columns.map((column, i) => (
        <td key={column.title} class={column.numeric ? "numeric" : undefined} title={column.full?.(row)}>
          {i === 0 ? (
            <a href={props.href(row)} tabIndex={-1}>
              {column.cell(row)}
            </a>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}
