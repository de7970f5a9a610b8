// Recent reconciles: a drawing for the eye, and the same in a table for all.

import { clock } from "../model/clock.ts";
import { duration } from "../model/age.ts";
import { describeTriggers, timestamp } from "../model/causes.ts";
import { describeCall, outcome, outcomeHealth, readsOf, writesOf } from "../model/reconciles.ts";
import { timeline } from "../model/timeline.ts";
import { count, milliseconds, NONE } from "../model/units.ts";
import { Age } from "./age.tsx";
import { DataTable, type DataColumn } from "./data_table.tsx";
import { State } from "./state.tsx";
import { useWidth } from "./use_width.ts";
import type { Reconcile } from "../api/types.ts";

const LANE = 22;
const AXIS = 18;
/** The rows of the table. */
const ROWS = 50;

function columns(href: (reconcile: Reconcile) => string | undefined): DataColumn<Reconcile>[] {
  return [
    {
      title: "Key",
      cell: (reconcile) => {
        const path = href(reconcile);
        return path ? <a href={path}>{reconcile.key}</a> : reconcile.key;
      },
    },
    { title: "Outcome", cell: (reconcile) => <State health={outcomeHealth(reconcile)} text={outcome(reconcile)} /> },
    { title: "Age", numeric: true, cell: (reconcile) => <Age time={timestamp(reconcile.started)} /> },
    { title: "Took", numeric: true, cell: (reconcile) => milliseconds(reconcile.tookMicros / 1000) },
    { title: "CPU", numeric: true, cell: (reconcile) => milliseconds(reconcile.cpuMicros / 1000) },
    { title: "Triggered by", text: true, cell: (reconcile) => <Lines lines={describeTriggers(reconcile)} /> },
    { title: "Reads", numeric: true, cell: (reconcile) => count(readsOf(reconcile)) },
    { title: "Writes", text: true, cell: (reconcile) => <Lines lines={writesOf(reconcile).map(describeCall)} more={reconcile.more} /> },
  ];
}

/** Texts, one in a line. */
function Lines({ lines, more = 0 }: { lines: string[]; more?: number }) {
  if (lines.length + more === 0) return <>{NONE}</>;
  return (
    <>
      {lines.map((line, i) => (
        <div key={i}>{line}</div>
      ))}
      {more > 0 && <div class="note">{`and ${count(more)} more triggers and calls`}</div>}
    </>
  );
}

/** The reconciles, the newest first; `href` is the address of a key's object. */
export function Timeline({ reconciles, href }: { reconciles: Reconcile[]; href: (reconcile: Reconcile) => string | undefined }) {
  return (
    <>
      <Drawing reconciles={reconciles} />
      <DataTable label="Recent reconciles" columns={columns(href)} rows={reconciles.slice(0, ROWS)} rowKey={(reconcile) => reconcile.id} limited />
    </>
  );
}

function Drawing({ reconciles }: { reconciles: Reconcile[] }) {
  const { ref, width } = useWidth();
  const drawn = timeline(reconciles, clock.now());
  const height = drawn.lanes.length * LANE + AXIS;
  const label = Math.min(140, width / 3);
  const room = Math.max(1, width - label - 8);
  return (
    <div class="timeline" ref={ref}>
      <svg width={width} height={height} role="img" aria-label={`${reconciles.length} reconciles over ${duration(drawn.to - drawn.from)}; the table below has the same`}>
        {drawn.lanes.map((lane, i) => (
          <g key={lane} transform={`translate(0 ${i * LANE})`}>
            <text x="0" y="15">
              {lane}
            </text>
            <line class="edge" x1={label} x2={width} y1={LANE - 1} y2={LANE - 1} />
          </g>
        ))}
        {drawn.bars.map(({ reconcile, lane, x, width: part }) => {
          const health = outcomeHealth(reconcile);
          const tall = health === "bad" ? 16 : 10;
          return (
            <rect key={reconcile.id} class={`bar ${health}`} x={label + x * room} y={lane * LANE + (LANE - tall) / 2} width={Math.max(3, part * room)} height={tall}>
              <title>{`${reconcile.key}: ${outcome(reconcile)}, ${milliseconds(reconcile.tookMicros / 1000)}`}</title>
            </rect>
          );
        })}
        <text x={label} y={height - 4}>{`${duration(drawn.to - drawn.from)} ago`}</text>
        <text class="end" x={width - 2} y={height - 4}>
          now
        </text>
      </svg>
    </div>
  );
}
