// A table of a few rows, whose cells may wrap. Long lists are in virtual_table.tsx. On narrow screens each row becomes a block of
// named values; the roles are explicit, because a browser drops those of a table that is not laid out as one.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** A column of a table. */
export interface DataColumn<T> {
  title: string;
  /** Numbers are aligned to the right. */
  numeric?: boolean;
  /** Text of unknown length, which may wrap. */
  text?: boolean;
  cell: (row: T) => ComponentChildren;
}

/** Moves the focus to the first link of another row. */
function moveAmongRows(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const row = event.target instanceof Element ? event.target.closest("tbody tr") : null;
  if (step === 0 || !row) return;
  let next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  while (next && !next.querySelector("a")) next = step > 0 ? next.nextElementSibling : next.previousElementSibling;
  const link = next?.querySelector("a");
  if (!link) return;
  event.preventDefault();
  link.focus();
}

/** Reports whether the element's content is larger than itself: then it must be reachable by keyboard. */
function useOverflow(rows: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [overflows, setOverflows] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => setOverflows(element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [rows]);
  return { ref, overflows };
}

/** A table; its first column is the row's header. */
export function DataTable<T>(props: { label: string; columns: DataColumn<T>[]; rows: T[]; rowKey: (row: T) => string; limited?: boolean }) {
  const { ref, overflows } = useOverflow(props.rows.length);
  const kind = (column: DataColumn<T>) => (column.numeric ? "numeric" : column.text ? "text" : undefined);
  return (
    <div class={props.limited ? "scroll limited" : "scroll"} ref={ref} {...(overflows && { tabIndex: 0, role: "region", "aria-label": props.label })}>
      <table role="table" aria-label={props.label} onKeyDown={moveAmongRows}>
        <thead role="rowgroup">
          <tr role="row">
            {props.columns.map((column) => (
              <th key={column.title} role="columnheader" scope="col" class={kind(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {props.rows.map((row) => (
            <tr key={props.rowKey(row)} role="row">
              {props.columns.map((column, i) =>
                i === 0 ? (
                  <th key={column.title} role="rowheader" scope="row" class={kind(column)}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} role="cell" class={kind(column)} data-title={column.title}>
                    <div>{column.cell(row)}</div>
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
