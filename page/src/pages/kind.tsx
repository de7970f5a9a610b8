// The live table of a kind.

import { useMemo } from "preact/hooks";
import { useValue } from "../api/use.ts";
import { ownWidths, shownColumns, isNumeric } from "../model/columns.ts";
import { fromQuery, hostQuery, toggled, toQuery, type Filter } from "../model/filter.ts";
import { HEALTH_WORDS } from "../model/health.ts";
import { AGE, cellText, HEALTH, type Held } from "../model/live_rows.ts";
import { groupKinds } from "../model/kinds.ts";
import { apiPath, format, type Route } from "../model/route.ts";
import { count, plural } from "../model/units.ts";
import { Age } from "../view/age.tsx";
import { Chips } from "../view/chips.tsx";
import { CommittedInput, FilterInput } from "../view/filter_input.tsx";
import { go } from "../view/navigation.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Refusal } from "../view/panel.tsx";
import { State } from "../view/state.tsx";
import { VirtualTable, type VirtualColumn } from "../view/virtual_table.tsx";
import { useKindRows, type KindRows } from "./kind_rows.ts";
import { KindList } from "./kinds.tsx";
import type { Kind } from "../api/types.ts";

type KindRoute = Extract<Route, { page: "kind" }>;

/** The page. */
export function KindPage({ route, query }: { route: KindRoute; query: string }) {
  const filter = fromQuery(query);
  const live = useKindRows(apiPath(route) + hostQuery(filter));
  const change = (changed: Partial<Filter>, replace = false) => go(format(route) + toQuery({ ...filter, ...changed }), replace);
  const view = useMemo(() => {
    const begun = performance.now();
    const result = live.rows.view(filter);
    live.spent(performance.now() - begun);
    return result;
  }, [live.rows, live.version, query]);
  const title = live.kind || route.plural;
  const narrowed = filter.q !== "" || filter.facets.length > 0;
  return (
    <div class="with-side">
      <Side current={format(route)} />
      <div class="fill">
        <PageHead title={title} context={route.group || "core"} crumbs={[{ text: "Kinds", href: "/page/kinds" }]}>
          <p class="summary">
            <span class="group">{`${route.group || "core"}/${route.version}`}</span>
            <span role="status">{live.synced ? (narrowed ? `${count(view.rows.length)} of ${plural(view.total, "object")}` : plural(view.total, "object")) : live.columns ? `Loading, ${plural(view.total, "object")} so far` : ""}</span>
          </p>
        </PageHead>
        <Filters filter={filter} change={change} live={live} namespaces={view.rows} />
        <Chips counts={view.counts} chosen={filter.facets} onToggle={(facet) => change({ facets: toggled(filter.facets, facet) })} />
        <Content route={route} filter={filter} change={change} live={live} rows={view.rows} total={view.total} />
      </div>
    </div>
  );
}

function Filters(props: { filter: Filter; change: (changed: Partial<Filter>, replace?: boolean) => void; live: KindRows; namespaces: Held[] }) {
  const { filter, change, live } = props;
  const namespaces = useMemo(() => [...new Set(props.namespaces.slice(0, 20_000).map((held) => held.row.namespace ?? ""))].filter(Boolean).sort().slice(0, 200), [live.synced]);
  return (
    <div class="filters">
      <FilterInput label="Filter" value={filter.q} onInput={(q) => change({ q }, true)} />
      {live.namespaced && <CommittedInput label="Namespace" value={filter.namespace} placeholder="all" suggestions={namespaces} onCommit={(namespace) => change({ namespace })} />}
      <CommittedInput label="Label selector" value={filter.labelSelector} placeholder="app=foo,tier!=web" onCommit={(labelSelector) => change({ labelSelector })} />
      {live.columns?.some((column) => (column.priority ?? 0) > 0) && (
        <button type="button" aria-pressed={filter.wide} onClick={() => change({ wide: !filter.wide })}>
          All columns
        </button>
      )}
    </div>
  );
}

function Content(props: { route: KindRoute; filter: Filter; change: (changed: Partial<Filter>) => void; live: KindRows; rows: Held[]; total: number }) {
  const { route, filter, live, rows } = props;
  const columns = useMemo(() => columnsOf(live, rows, filter), [live.columns, live.synced, rows.length === 0, filter.namespace, filter.wide]);
  if (live.failed) return <Refusal what={live.kind || route.plural} status={{ phase: "failed", ...live.failed }} />;
  if (live.status.phase === "failed") return <Refusal what={live.kind || route.plural} status={live.status} />;
  if (!live.columns || (!live.synced && props.total === 0)) return <Loading what={route.plural} lines={16} />;
  if (rows.length === 0) return <NoRows kind={live.kind} filter={filter} total={props.total} />;
  return (
    <VirtualTable
      label={live.kind}
      columns={columns}
      rows={rows}
      rowKey={(held) => held.row.uid}
      href={(held) => format({ page: "object", group: route.group, version: route.version, plural: route.plural, namespace: held.row.namespace ?? "", name: held.row.name })}
      sort={filter.sort}
      descending={filter.descending}
      onSort={(sort) => props.change({ sort, descending: filter.sort === sort && !filter.descending })}
    />
  );
}

function NoRows({ kind, filter, total }: { kind: string; filter: Filter; total: number }) {
  if (total > 0) return <Empty>{`None of ${plural(total, "object")} matches the filter.`}</Empty>;
  const where = [filter.namespace && `in namespace ${filter.namespace}`, filter.labelSelector && `with labels ${filter.labelSelector}`].filter(Boolean).join(" ");
  return <Empty>{`There is no ${kind}${where ? ` ${where}` : ""}. New objects appear here as they are created.`}</Empty>;
}

/** Returns the columns: name, namespace, health, those that the kind prints, age. */
function columnsOf(live: KindRows, rows: Held[], filter: Filter): VirtualColumn<Held>[] {
  const sample = rows.slice(0, 300).map((held) => held.row);
  const own = ownWidths(sample);
  const printed = shownColumns(live.columns ?? [], sample, filter.wide).map((column): VirtualColumn<Held> => {
    const text = (held: Held) => cellText(held.row.cells[column.cell]);
    return { title: column.title, sort: column.title, width: column.width, numeric: isNumeric(column.type), cell: text, full: text };
  });
  const name: VirtualColumn<Held> = { title: "Name", sort: "Name", width: own.name, cell: (held) => held.row.name, full: (held) => held.row.name };
  const place: VirtualColumn<Held> = { title: "Namespace", sort: "Namespace", width: own.namespace, cell: (held) => held.row.namespace ?? "", full: (held) => held.row.namespace ?? "" };
  const health: VirtualColumn<Held> = {
    title: HEALTH,
    sort: HEALTH,
    width: 15,
    cell: (held) => <State health={held.row.health ?? "unknown"} text={HEALTH_WORDS[held.row.health ?? "unknown"]} />,
  };
  const age: VirtualColumn<Held> = { title: AGE, sort: AGE, width: 9, numeric: true, cell: (held) => <Age time={held.row.created} /> };
  return [name, ...(live.namespaced && !filter.namespace ? [place] : []), health, ...printed, age];
}

/** The other kinds, beside the table on wide screens. */
function Side({ current }: { current: string }) {
  const { value } = useValue<{ kinds: Kind[] }>("/page/api/kinds", "kinds");
  return (
    <nav class="side" aria-label="Kinds" tabIndex={-1}>
      {groupKinds(value?.kinds ?? [], "").map((group) => (
        <div key={group.group}>
          <p class="side-title">{group.title}</p>
          <KindList kinds={group.kinds} current={current} />
        </div>
      ))}
    </nav>
  );
}
