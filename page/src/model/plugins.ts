// The order of Plugins in their list, and its filter.

import { textMatcher } from "./filter.ts";
import type { PluginSummary } from "../api/types.ts";

/** The columns that order the list, by name. */
const VALUES: Record<string, (plugin: PluginSummary) => number | string> = {
  Plugin: (plugin) => `${plugin.namespace}/${plugin.name}`,
  State: (plugin) => plugin.state,
  "Reconciles/s": (plugin) => plugin.reconcilesPerSecond ?? -1,
  "Errors/s": (plugin) => plugin.errorsPerSecond ?? -1,
  p50: (plugin) => plugin.p50Ms ?? -1,
  p99: (plugin) => plugin.p99Ms ?? -1,
  CPU: (plugin) => plugin.cpuPercent ?? -1,
  Memory: (plugin) => plugin.memoryBytes ?? -1,
  Queued: (plugin) => plugin.queued ?? -1,
};

/** Returns the Plugins that the text leaves. Without a column, those that need attention come first. */
export function orderPlugins(plugins: PluginSummary[], q: string, sort: string, descending: boolean): PluginSummary[] {
  const matches = textMatcher(q);
  const shown = plugins.filter((plugin) => matches([plugin.namespace, plugin.name, plugin.state, plugin.reason, plugin.message, ...(plugin.runsOn ?? [])].join(" ").toLowerCase()));
  const name = (plugin: PluginSummary) => `${plugin.namespace}/${plugin.name}`;
  const value = VALUES[sort] ?? ((plugin: PluginSummary) => (plugin.needsAttention ? 0 : 1));
  const factor = descending ? -1 : 1;
  return shown.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== y) return (x < y ? -1 : 1) * factor;
    return name(a) < name(b) ? -1 : 1;
  });
}
