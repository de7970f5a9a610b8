// The part of a long list that is rendered.

/** The rendered rows: from `first` up to but without `end`. */
export interface Window {
  first: number;
  end: number;
}

/** Rows that are rendered above and below the visible ones. */
const OVERSCAN = 12;
/** The first row is a multiple of this, so that not every pixel of scrolling renders. */
const STEP = 4;

/** Returns the rows to render for a scroll position, in pixels. */
export function windowAt(scrollTop: number, viewport: number, rowHeight: number, rows: number): Window {
  const top = Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN);
  const first = Math.min(Math.floor(top / STEP) * STEP, Math.max(0, rows - 1));
  const end = Math.min(rows, first + Math.ceil(viewport / rowHeight) + 2 * OVERSCAN + STEP);
  return { first, end };
}

/** Returns the scroll position that shows a row, nearest to the current one. */
export function scrollToShow(row: number, scrollTop: number, viewport: number, header: number, rowHeight: number): number {
  const top = row * rowHeight;
  const bottom = top + rowHeight + header - viewport;
  if (top < scrollTop) return top;
  return bottom > scrollTop ? bottom : scrollTop;
}

/** Returns the row to which a key moves, or undefined if the key does not move. */
export function moved(key: string, row: number, rows: number, page: number): number | undefined {
  const to = { ArrowDown: row + 1, ArrowUp: row - 1, PageDown: row + page, PageUp: row - page, Home: 0, End: rows - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(rows - 1, to));
}
