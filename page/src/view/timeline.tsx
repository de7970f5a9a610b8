// Recent reconciles: a drawing for the eye, and the same in a table for all.

import { useEffect, useRef, useState } from "preact/hooks";
import { clock } from "../model/clock.ts";
import { duration } from "../model/age.ts";
import { outcomeHealth } from "../model/health.ts";
import { timeline } from "../model/timeline.ts";
import { count, milliseconds, NONE } from "../model/units.ts";
import { Age } from "./age.tsx";
import { DataTable, type DataColumn } from "./data_table.tsx";
import { State } from "./state.tsx";
import type { Reconcile, RecordedWrite } from "../api/types.ts";

const LANE = 22;
const AXIS = 18;
/** The rows of the table. */
const ROWS = 50;

function describeWrite(write: RecordedWrite): string {
  const paths = write.paths?.length ? ` (${write.paths.join(", ")})` : "";
  return `${write.verb} ${write.kind} ${write.key}${paths}${write.result ? `: ${write.result}` : ""}`;
}

const COLUMNS: DataColumn<Reconcile>[] = [
  { title: "Key", cell: (reconcile) => reconcile.key },
  { title: "Outcome", cell: (reconcile) => <State health={outcomeHealth(reconcile.outcome)} text={reconcile.outcome} /> },
  { title: "Age", cell: (reconcile) => <Age time={reconcile.started} /> },
  { title: "Took", numeric: true, cell: (reconcile) => milliseconds(reconcile.seconds * 1000) },
  { title: "CPU", numeric: true, cell: (reconcile) => milliseconds(reconcile.cpuSeconds === undefined ? undefined : reconcile.cpuSeconds * 1000) },
  { title: "Reads", numeric: true, cell: (reconcile) => count(reconcile.reads) },
  { title: "Writes", text: true, cell: (reconcile) => (reconcile.writes ?? []).map((write, i) => <div key={i}>{describeWrite(write)}</div>) },
  { title: "Triggered by", text: true, cell: (reconcile) => (reconcile.triggers ?? []).join("; ") || NONE },
];

/** The reconciles. */
export function Timeline({ reconciles }: { reconciles: Reconcile[] }) {
  const newest = [...reconciles].sort((a, b) => (a.started < b.started ? 1 : -1)).slice(0, ROWS);
  return (
    <>
      <Drawing reconciles={reconciles} />
      <DataTable label="Recent reconciles" columns={COLUMNS} rows={newest} rowKey={(reconcile) => reconcile.id} limited />
    </>
  );
}

function Drawing({ reconciles }: { reconciles: Reconcile[] }) {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!ref.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
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
          const health = outcomeHealth(reconcile.outcome);
          const tall = health === "bad" ? 16 : 10;
          return (
            <rect key={reconcile.id} class={`bar ${health}`} x={label + x * room} y={lane * LANE + (LANE - tall) / 2} width={Math.max(3, part * room)} height={tall}>
              <title>{`${reconcile.key}: ${reconcile.outcome}, ${milliseconds(reconcile.seconds * 1000)}`}</title>
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
