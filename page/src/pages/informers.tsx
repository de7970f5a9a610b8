// All informers of the host.

import { useValue } from "../api/use.ts";
import { fromQuery, textMatcher, toQuery } from "../model/filter.ts";
import { bytes, count, plural } from "../model/units.ts";
import { FilterInput } from "../view/filter_input.tsx";
import { InformersTable } from "../view/informers_table.tsx";
import { go } from "../view/navigation.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Refusal } from "../view/panel.tsx";
import type { Informer } from "../api/types.ts";

/** The page. */
export function InformersPage({ query }: { query: string }) {
  const { value, status } = useValue<{ informers: Informer[]; beingSetUp?: string[] }>("/page/api/informers", "informers");
  const filter = fromQuery(query);
  const informers = value?.informers ?? [];
  const matches = textMatcher(filter.q);
  const shown = informers.filter((informer) => matches([informer.kind, informer.namespace, informer.labelSelector, informer.error, ...(informer.users ?? [])].join(" ").toLowerCase()));
  const sum = (read: (informer: Informer) => number | undefined) => informers.reduce((total, informer) => total + (read(informer) ?? 0), 0);
  return (
    <>
      <PageHead title="Informers">
        <p class="summary" role="status">
          {value && `${plural(informers.length, "informer")} · ${plural(sum((informer) => informer.objects), "object")} · ${bytes(sum((informer) => informer.bytes))} of memory`}
        </p>
      </PageHead>
      {status.phase === "failed" ? (
        <Refusal what="Informers" status={status} />
      ) : !value ? (
        <Loading what="informers" lines={12} />
      ) : (
        <>
          {value.beingSetUp && value.beingSetUp.length > 0 && <p class="note">{`${count(value.beingSetUp.length)} being set up: ${value.beingSetUp.join(", ")}`}</p>}
          <div class="filters">
            <FilterInput label="Filter" value={filter.q} onInput={(q) => go(`/page/informers${toQuery({ ...filter, q })}`, true)} />
          </div>
          {informers.length === 0 ? <Empty>The host watches nothing.</Empty> : shown.length === 0 ? <Empty>No informer matches the filter.</Empty> : <InformersTable informers={shown} users />}
        </>
      )}
    </>
  );
}
