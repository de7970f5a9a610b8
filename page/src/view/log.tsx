// The live log of a Plugin.

import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { useStream } from "../api/use.ts";
import { levelHealth } from "../model/health.ts";
import { LogBuffer, type NumberedLine } from "../model/log_buffer.ts";
import { count, plural } from "../model/units.ts";
import { Empty, Panel } from "./panel.tsx";
import { Shape } from "./state.tsx";
import type { LogLine } from "../api/types.ts";

/** The rendered lines. */
const SHOWN = 500;
const LEVELS = ["trace", "debug", "info", "warn", "error"];

/** The log with its filters. */
export function Log({ url }: { url: string }) {
  const buffer = useMemo(() => new LogBuffer(), [url]);
  const [, render] = useReducer((n: number) => n + 1, 0);
  const [level, setLevel] = useState("trace");
  const [q, setQ] = useState("");
  const [following, setFollowing] = useState(true);
  const frame = useRef(0);
  const later = () => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      render(undefined as never);
    });
  };
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  const status = useStream(url, () => ({
    start: () => {
      buffer.clear();
      later();
    },
    events: {
      line: (line) => {
        buffer.add(line as LogLine);
        later();
      },
    },
  }));
  const lines = buffer.view(level, q, SHOWN);
  const note = buffer.size > lines.length ? `${count(lines.length)} of ${plural(buffer.size, "line")}` : plural(lines.length, "line");
  return (
    <Panel title="Log" wide note={note} actions={<LogControls level={level} setLevel={setLevel} q={q} setQ={setQ} following={following} setFollowing={setFollowing} />}>
      {status.phase === "failed" ? <Empty>{status.message}</Empty> : <Lines lines={lines} following={following} setFollowing={setFollowing} />}
    </Panel>
  );
}

function LogControls(props: { level: string; setLevel: (level: string) => void; q: string; setQ: (q: string) => void; following: boolean; setFollowing: (following: boolean) => void }) {
  return (
    <>
      <label>
        <span class="visually-hidden">Text in the log</span>
        <input type="search" placeholder="Text" value={props.q} onInput={(event) => props.setQ(event.currentTarget.value)} />
      </label>
      <label>
        <span class="visually-hidden">Least level</span>
        <select value={props.level} onChange={(event) => props.setLevel(event.currentTarget.value)}>
          {LEVELS.map((level) => (
            <option key={level} value={level}>
              {level === "trace" ? "all levels" : level}
            </option>
          ))}
        </select>
      </label>
      <button type="button" aria-pressed={props.following} onClick={() => props.setFollowing(!props.following)}>
        Follow
      </button>
    </>
  );
}

function Lines(props: { lines: NumberedLine[]; following: boolean; setFollowing: (following: boolean) => void }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (props.following && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  });
  const onScroll = () => {
    const element = ref.current;
    if (!element) return;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
    if (atEnd !== props.following) props.setFollowing(atEnd);
  };
  return (
    <div class="log" role="log" aria-live="off" aria-label="Log lines" tabIndex={0} ref={ref} onScroll={onScroll}>
      {props.lines.length === 0 && <Empty>No lines yet. New lines appear here as the plugin writes them.</Empty>}
      {props.lines.map((line) => (
        <div key={line.number} class={`line ${line.level}`}>
          <time dateTime={line.time}>{line.time.slice(11, 23)}</time>
          <span class="level">
            <Shape health={levelHealth(line.level)} />
            {line.level}
          </span>
          <span class="text">
            {line.controller && <span class="key">{`${line.controller} ${line.key ?? ""} `}</span>}
            {line.message}
            {(line.fields ?? []).map(([name, value], i) => (
              <span key={i} class="field">{` ${name}=${value}`}</span>
            ))}
          </span>
        </div>
      ))}
    </div>
  );
}
