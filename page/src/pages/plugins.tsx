// All Plugins of the host that the user may see; those that need attention first.

import { useMemo } from "preact/hooks";
import { useValue } from "../api/use.ts";
import { fromQuery, toQuery, type Filter } from "../model/filter.ts";
import { fitted } from "../model/graph.ts";
import { pluginHealth } from "../model/health.ts";
import { orderPlugins } from "../model/plugins.ts";
import { format } from "../model/route.ts";
import { bytes, count, decimal, milliseconds, NONE, percent, plural } from "../model/units.ts";
import { FilterInput } from "../view/filter_input.tsx";
import { Message } from "../view/message.tsx";
import { go } from "../view/navigation.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Refusal } from "../view/panel.tsx";
import { Shape, State } from "../view/state.tsx";
import { VirtualTable, type VirtualColumn } from "../view/virtual_table.tsx";
import type { PluginList, PluginSummary } from "../api/types.ts";

const path = (plugin: PluginSummary) => format({ page: "plugin", namespace: plugin.namespace, name: plugin.name });
const fullName = (plugin: PluginSummary) => `${plugin.namespace}/${plugin.name}`;

/** A column of numbers. */
function numbers(title: string, width: number, text: (plugin: PluginSummary) => string): VirtualColumn<PluginSummary> {
  return { title, sort: title, width, numeric: true, cell: text };
}

/** Returns the columns; the first is as wide as the longest name. */
function columnsOf(plugins: PluginSummary[]): VirtualColumn<PluginSummary>[] {
  const longest = Math.max(20, ...plugins.map((plugin) => fullName(plugin).length + 2));
  return [
    { title: "Plugin", sort: "Plugin", width: Math.min(44, longest - 1), cell: fullName, full: fullName },
    {
      title: "State",
      sort: "State",
      width: 29,
      cell: (plugin) => <State health={pluginHealth(plugin.state, plugin.needsAttention)} text={plugin.reason && plugin.reason !== plugin.state ? `${plugin.state}: ${plugin.reason}` : plugin.state} />,
      full: (plugin) => [plugin.state, plugin.reason, plugin.message].filter(Boolean).join(": "),
    },
    numbers("Reconciles/s", 13, (plugin) => decimal(plugin.reconcilesPerSecond)),
    numbers("Errors/s", 9, (plugin) => decimal(plugin.errorsPerSecond)),
    numbers("p50", 9, (plugin) => milliseconds(plugin.p50Ms)),
    numbers("p99", 9, (plugin) => milliseconds(plugin.p99Ms)),
    numbers("CPU", 8, (plugin) => percent(plugin.cpuPercent)),
    numbers("Memory", 10, (plugin) => bytes(plugin.memoryBytes)),
    numbers("Queued", 9, (plugin) => count(plugin.queued)),
    { title: "Runs on", width: 18, cell: (plugin) => plugin.runsOn?.map((host) => fitted(host, 15)).join(", ") || NONE, full: (plugin) => plugin.runsOn?.join(", ") ?? "" },
  ];
}

/** The page. */
export function PluginsPage({ query }: { query: string }) {
  const { value, status } = useValue<PluginList>("/page/api/plugins", "plugins");
  const filter = fromQuery(query);
  const change = (changed: Partial<Filter>, replace: boolean) => go(`/page/plugins${toQuery({ ...filter, ...changed })}`, replace);
  const shown = useMemo(() => orderPlugins(value?.plugins ?? [], filter.q, filter.sort, filter.descending), [value, query]);
  const attention = (value?.plugins ?? []).filter((plugin) => plugin.needsAttention);
  return (
    <>
      <PageHead title="Plugins">
        <p class="summary" role="status">
          {value && summaryOf(value, attention.length)}
        </p>
      </PageHead>
      {status.phase === "failed" ? (
        <Refusal what="Plugins" status={status} />
      ) : !value ? (
        <Loading what="plugins" lines={12} />
      ) : value.plugins.length === 0 ? (
        <NoPlugins list={value} />
      ) : (
        <>
          <Attention plugins={attention} />
          <section class="fill" aria-labelledby="all-plugins">
            <h2 id="all-plugins" class="visually-hidden">
              All plugins
            </h2>
            <div class="filters">
              <FilterInput label="Filter" value={filter.q} onInput={(q) => change({ q }, true)} />
            </div>
            {shown.length === 0 ? (
              <Empty>No plugin matches the filter.</Empty>
            ) : (
              <VirtualTable
                label="Plugins"
                columns={columnsOf(value.plugins)}
                rows={shown}
                rowKey={fullName}
                href={path}
                sort={filter.sort}
                descending={filter.descending}
                onSort={(sort) => change({ sort, descending: filter.sort === sort && !filter.descending }, false)}
              />
            )}
          </section>
        </>
      )}
    </>
  );
}

function summaryOf(list: PluginList, attention: number): string {
  const parts = [plural(list.plugins.length, "plugin")];
  if (list.plugins.length > 0) parts.push(attention === 0 ? "none needs attention" : `${count(attention)} ${attention === 1 ? "needs" : "need"} attention`);
  if (list.hidden) parts.push(`${count(list.hidden)} hidden, because you may not get them`);
  return parts.join(" · ");
}

function NoPlugins({ list }: { list: PluginList }) {
  if (list.forbidden) return <Refusal what="Plugins" status={{ phase: "failed", reason: "Forbidden", message: list.forbidden }} />;
  if (list.hidden) return <Empty>{`This host has ${plural(list.hidden, "plugin")} that you may not see. Ask for the right to get plugins.operetta.dev in their namespaces.`}</Empty>;
  return (
    <Empty>
      This host runs no plugins yet. Create a Plugin, or try one: <code>operetta new</code> and <code>operetta dev</code>.
    </Empty>
  );
}

/** The Plugins that need attention, with their message and the cure. */
function Attention({ plugins }: { plugins: PluginSummary[] }) {
  if (plugins.length === 0) return null;
  return (
    <section aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <ul class="attention">
        {plugins.map((plugin) => (
          <li key={fullName(plugin)}>
            <p class="what">
              <Shape health={pluginHealth(plugin.state, true)} />
              <a href={path(plugin)}>{fullName(plugin)}</a>
              <strong>{plugin.state}</strong>
              {plugin.reason && <span>{plugin.reason}</span>}
            </p>
            {plugin.message && (
              <p>
                <Message text={plugin.message} remedies={plugin.remedies} />
              </p>
            )}
            {plugin.cure && (
              <p class="cure">
                <strong>Cure: </strong>
                <Message text={plugin.cure} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
