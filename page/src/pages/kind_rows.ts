// The live rows of a kind, as state of a component. Changes are gathered and shown once a frame; while many come, less often, so
// that the page spends at most a fifth of its time on them.

import { useEffect, useReducer, useRef } from "preact/hooks";
import { useStream } from "../api/use.ts";
import { LiveRows } from "../model/live_rows.ts";
import type { Status } from "../model/connection.ts";
import type { Column, Failure, Row } from "../api/types.ts";

/** The state of a kind's stream. */
export interface KindRows {
  rows: LiveRows;
  kind: string;
  namespaced: boolean;
  columns: Column[] | undefined;
  /** True once the first list is complete. */
  synced: boolean;
  /** The refusal that ended the stream. */
  failed: Failure | undefined;
  status: Status;
  /** A number that changes with the rows. */
  version: number;
  /** Tells how long the last render of the rows took, in milliseconds. */
  spent: (ms: number) => void;
}

type Held = Omit<KindRows, "status" | "version" | "spent">;

const begin = (): Held => ({ rows: new LiveRows(), kind: "", namespaced: true, columns: undefined, synced: false, failed: undefined });

/** Returns a function that calls `render` soon: at the next frame, or later if the last one was expensive. */
function usePaced(render: () => void) {
  const state = useRef({ timer: 0, cost: 0, last: 0 });
  useEffect(() => () => clearTimeout(state.current.timer), []);
  const soon = () => {
    const paced = state.current;
    if (paced.timer) return;
    const wait = Math.max(0, paced.last + 4 * paced.cost - performance.now());
    paced.timer = setTimeout(() => {
      paced.timer = 0;
      paced.last = performance.now();
      render();
    }, wait) as unknown as number;
  };
  return { soon, spent: (ms: number) => (state.current.cost = ms) };
}

/** Streams the rows of a kind. */
export function useKindRows(url: string): KindRows {
  const held = useRef<{ url: string; state: Held } | undefined>(undefined);
  if (held.current?.url !== url) held.current = { url, state: begin() };
  const state = held.current.state;
  const [version, render] = useReducer((n: number) => n + 1, 0);
  const { soon, spent } = usePaced(() => render(undefined as never));
  const set = (changed: Partial<Held>) => {
    Object.assign(state, changed);
    soon();
  };
  const status = useStream(url, () => ({
    start: () => {
      state.rows.restart();
      set({ failed: undefined });
    },
    events: {
      columns: (data) => {
        const { columns, kind, namespaced } = data as { columns: Column[]; kind: string; namespaced: boolean };
        state.rows.columns(columns);
        set({ columns, kind, namespaced });
      },
      rows: (data) => {
        state.rows.upsert((data as { rows: Row[] }).rows);
        soon();
      },
      failing: (data) => {
        state.rows.failing((data as { objects: string[] }).objects);
        soon();
      },
      deleted: (data) => {
        state.rows.remove((data as { uids: string[] }).uids);
        soon();
      },
      synced: () => {
        state.rows.synced();
        set({ synced: true });
      },
      reset: () => state.rows.restart(),
      failed: (data) => set({ failed: data as Failure }),
    },
  }));
  return { ...state, status, version, spent };
}
