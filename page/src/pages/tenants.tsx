// The tenants: namespaces with Plugins, their share of the host and their quotas.

import { useValue } from "../api/use.ts";
import { count, decimal, NONE, percent, plural } from "../model/units.ts";
import { DataTable, type DataColumn } from "../view/data_table.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Refusal } from "../view/panel.tsx";
import { State } from "../view/state.tsx";
import type { Tenant } from "../api/types.ts";

type Quota = NonNullable<Tenant["quotas"]>[number];

/** A quota with a meter, if both of its numbers are known. */
function QuotaLine({ quota }: { quota: Quota }) {
  const { used, limit } = quota;
  const text = (value: number | string) => (typeof value === "number" ? decimal(value) : value);
  return (
    <div class="quota">
      <span>{quota.quota}</span>
      {typeof used === "number" && typeof limit === "number" && limit > 0 ? <meter min={0} max={limit} high={limit * 0.9} value={used} aria-label={`${quota.quota} used`} /> : <span />}
      <span class="numeric">{limit === null ? `${text(used)}, no limit` : `${text(used)} of ${text(limit)}`}</span>
    </div>
  );
}

const COLUMNS: DataColumn<Tenant>[] = [
  { title: "Namespace", cell: (tenant) => <a href={`/page/plugins?q=${encodeURIComponent(tenant.namespace)}`}>{tenant.namespace}</a> },
  {
    title: "State",
    cell: (tenant) =>
      tenant.overQuota ? <State health="bad" text={`${plural(tenant.overQuota, "plugin")} over quota`} /> : (tenant.throttledPercent ?? 0) >= 1 ? <State health="progressing" text="Throttled" /> : <State health="ok" text="Within quotas" />,
  },
  { title: "Plugins", numeric: true, cell: (tenant) => count(tenant.plugins) },
  { title: "Weight", numeric: true, cell: (tenant) => decimal(tenant.share) },
  { title: "CPU", numeric: true, cell: (tenant) => percent(tenant.cpuPercent) },
  { title: "Throttled", numeric: true, cell: (tenant) => percent(tenant.throttledPercent) },
  { title: "Quotas", cell: (tenant) => (tenant.quotas?.length ? tenant.quotas.map((quota) => <QuotaLine key={quota.quota} quota={quota} />) : NONE) },
];

/** The answer of the host. */
interface TenantList {
  tenants: Tenant[];
  hidden?: number;
}

/** The page. */
export function TenantsPage() {
  const { value, status } = useValue<TenantList | Tenant[]>("/page/api/tenants", "tenants");
  const list: TenantList | undefined = Array.isArray(value) ? { tenants: value } : value;
  const tenants = list?.tenants ?? [];
  return (
    <>
      <PageHead title="Tenants">
        <p class="summary" role="status">
          {list && plural(tenants.length, "namespace") + (list.hidden ? ` · ${count(list.hidden)} hidden, because you may not see them` : "")}
        </p>
      </PageHead>
      {status.phase === "failed" ? (
        <Refusal what="Tenants" status={status} />
      ) : !value ? (
        <Loading what="tenants" lines={8} />
      ) : tenants.length === 0 ? (
        <Empty>No namespace has Plugins that you may see.</Empty>
      ) : (
        <DataTable label="Tenants" columns={COLUMNS} rows={tenants} rowKey={(tenant) => tenant.namespace} />
      )}
    </>
  );
}
