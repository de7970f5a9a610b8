// The application centre's entry: choose a kind.

import { useValue } from "../api/use.ts";
import { fromQuery, toQuery } from "../model/filter.ts";
import { groupKinds, type KindGroup } from "../model/kinds.ts";
import { format } from "../model/route.ts";
import { plural } from "../model/units.ts";
import { FilterInput } from "../view/filter_input.tsx";
import { go } from "../view/navigation.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Refusal } from "../view/panel.tsx";
import type { Kind } from "../api/types.ts";

/** The page. */
export function KindsPage({ query }: { query: string }) {
  const { value, status } = useValue<{ kinds: Kind[] }>("/page/api/kinds", "kinds");
  const filter = fromQuery(query);
  const groups = groupKinds(value?.kinds ?? [], filter.q);
  const shown = groups.reduce((sum, group) => sum + group.kinds.length, 0);
  return (
    <>
      <PageHead title="Kinds">
        <p class="summary" role="status">
          {value && plural(shown, "kind")}
        </p>
      </PageHead>
      <div class="filters">
        <FilterInput label="Filter" value={filter.q} onInput={(q) => go(`/page/kinds${toQuery({ ...filter, q })}`, true)} />
      </div>
      {status.phase === "failed" ? (
        <Refusal what="Kinds" status={status} />
      ) : !value ? (
        <Loading what="kinds" lines={12} />
      ) : groups.length === 0 ? (
        <Empty>{filter.q ? "No kind matches the filter." : "The API server serves no kinds to you."}</Empty>
      ) : (
        <div class="kind-groups">
          {groups.map((group) => (
            <Group key={group.group} group={group} />
          ))}
        </div>
      )}
    </>
  );
}

function Group({ group }: { group: KindGroup }) {
  const id = `group-${group.title}`;
  return (
    <section class="kind-group" aria-labelledby={id}>
      <h2 id={id}>{group.title}</h2>
      <KindList kinds={group.kinds} />
    </section>
  );
}

/** Links to the tables of kinds. */
export function KindList({ kinds, current }: { kinds: Kind[]; current?: string }) {
  return (
    <ul class="kind-list">
      {kinds.map((kind) => {
        const href = format({ page: "kind", group: kind.group, version: kind.version, plural: kind.plural });
        return (
          <li key={href}>
            <a href={href} {...(href === current && { "aria-current": "page" as const })}>
              {kind.kind}
            </a>
            {kind.custom && <span class="tag">custom</span>}
          </li>
        );
      })}
    </ul>
  );
}
