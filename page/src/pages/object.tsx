// One object: conditions, owners and children, Events, the Plugins that reconcile it, its changes and their causes, YAML.

import { useMemo, useState } from "preact/hooks";
import { usePolled, useStream } from "../api/use.ts";
import { objectName, pluralsOf } from "../model/causes.ts";
import { apiPath, format, type Route } from "../model/route.ts";
import { HEALTH_WORDS } from "../model/health.ts";
import { count, plural } from "../model/units.ts";
import { Age } from "../view/age.tsx";
import { Causes } from "../view/causes.tsx";
import { ConditionsTable } from "../view/conditions_table.tsx";
import { DataTable, type DataColumn } from "../view/data_table.tsx";
import { Graph } from "../view/graph.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Panel, Refusal } from "../view/panel.tsx";
import { State } from "../view/state.tsx";
import { CopyButton, Yaml } from "../view/yaml.tsx";
import type { Explanation, Failure, Kind, ObjectDetails, ObjectEvent } from "../api/types.ts";

type ObjectRoute = Extract<Route, { page: "object" }>;

/** The state of an object's stream. */
interface Shown {
  url: string;
  details?: ObjectDetails;
  deleted?: boolean;
  failed?: Failure;
}

function useObject(url: string) {
  const [shown, setShown] = useState<Shown>({ url });
  const status = useStream(url, () => ({
    events: {
      object: (details) => setShown({ url, details: details as ObjectDetails }),
      deleted: () => setShown((old) => ({ ...old, url, deleted: true })),
      failed: (failed) => setShown((old) => ({ ...old, url, failed: failed as Failure })),
    },
  }));
  return { shown: shown.url === url ? shown : { url }, status };
}

/** The page. */
export function ObjectPage({ route }: { route: ObjectRoute }) {
  const { shown, status } = useObject(apiPath(route));
  const { details, deleted } = shown;
  const name = route.namespace ? `${route.namespace}/${route.name}` : route.name;
  const kind = details?.summary.kind ?? route.plural;
  const kindPath = format({ page: "kind", group: route.group, version: route.version, plural: route.plural });
  const refusal = shown.failed ? { phase: "failed" as const, ...shown.failed } : status.phase === "failed" && !deleted ? status : undefined;
  return (
    <>
      <PageHead
        title={name}
        context={kind}
        crumbs={[
          { text: "Kinds", href: "/page/kinds" },
          { text: kind, href: kindPath },
        ]}
      >
        {details && <Summary details={details} deleted={deleted ?? false} />}
        {details && <Reconcilers kind={details.summary.kind} plugins={details.plugins ?? []} />}
      </PageHead>
      {refusal && !details && <Refusal what={`${kind} ${name}`} status={refusal} />}
      {refusal && details && <p class="warning" role="alert">{`What you see is old. ${refusal.message ?? ""}`}</p>}
      {deleted && (
        <p class="warning" role="alert">
          The object was deleted. What you see is its last state. <a href={kindPath}>All objects of the kind</a>
        </p>
      )}
      {details ? <Details route={route} details={details} /> : !refusal && !deleted && <Loading what="the object" lines={16} />}
    </>
  );
}

function Summary({ details, deleted }: { details: ObjectDetails; deleted: boolean }) {
  const { summary } = details;
  return (
    <p class="summary">
      <span>{summary.kind}</span>
      <span class="group">{summary.apiVersion}</span>
      {summary.health && <State health={summary.health} text={HEALTH_WORDS[summary.health]} />}
      {deleted ? <strong>Deleted</strong> : summary.deleting && <strong>Being deleted</strong>}
      <span>
        created <Age time={summary.created} /> ago
      </span>
      {summary.uid && <span class="note">{summary.uid}</span>}
    </p>
  );
}

/** The Plugins with a controller that gets the object: one for its kind, whose namespaces and rights reach it. */
function Reconcilers({ kind, plugins }: { kind: string; plugins: NonNullable<ObjectDetails["plugins"]> }) {
  if (plugins.length === 0) return <p class="note">{`No plugin of this host has a controller that gets this ${kind}.`}</p>;
  return (
    <p>
      {`Plugins for ${kind}: `}
      {plugins.map((plugin, i) => (
        <span key={`${plugin.namespace}/${plugin.name}/${plugin.controller}`}>
          {i > 0 && ", "}
          <a href={format({ page: "plugin", namespace: plugin.namespace, name: plugin.name })}>{`${plugin.namespace}/${plugin.name}`}</a>
          {plugin.controller && <span class="note">{` controller ${plugin.controller}`}</span>}
        </span>
      ))}
    </p>
  );
}

function Details({ route, details }: { route: ObjectRoute; details: ObjectDetails }) {
  const { summary, conditions = [], owners = [], children = [], events = [] } = details;
  const self = { ...summary, namespace: route.namespace, name: route.name };
  return (
    <div class="panels">
      <Panel
        title="Owners and children"
        wide
        note={`${plural(owners.length, "owner")}, ${plural(children.length, "child", "children")}`}
        empty={owners.length + children.length === 0 && "The object has no owners and no children."}
      >
        <Graph owners={owners} self={self} children={children} />
      </Panel>
      <Panel title="Conditions" wide empty={conditions.length === 0 && "The object has no conditions."}>
        <ConditionsTable conditions={conditions} />
      </Panel>
      <Panel title="Events" wide note={plural(events.length, "Event")} empty={events.length === 0 && "No Events about this object."}>
        <DataTable label="Events" columns={EVENTS} rows={events} rowKey={(event) => [event.reason, event.message, event.from, event.last].join("|")} />
      </Panel>
      <Why route={route} name={objectName({ ...self, kind: summary.kind })} />
      <Panel title="YAML" wide actions={<CopyButton text={details.yaml} />}>
        <Yaml yaml={details.yaml} cut={details.cut ?? false} />
      </Panel>
    </div>
  );
}

const EVENTS: DataColumn<ObjectEvent>[] = [
  { title: "Reason", cell: (event) => event.reason ?? "" },
  { title: "Type", cell: (event) => <State health={event.type === "Warning" ? "bad" : "unknown"} text={event.type ?? "Normal"} /> },
  { title: "Last", numeric: true, cell: (event) => <Age time={event.last} /> },
  { title: "Count", numeric: true, cell: (event) => count(event.count ?? 1) },
  { title: "From", cell: (event) => event.from ?? "" },
  { title: "Message", text: true, cell: (event) => event.message ?? "" },
];

/** The object's changes and their causes, if the host records them. */
function Why({ route, name }: { route: ObjectRoute; name: string }) {
  const { value, missing, error } = usePolled<Explanation>(format(route).replace("/page/objects/", "/page/api/why/"), 5000);
  // A request, not a stream: a browser has few connections, and a plural does not change.
  const { value: served } = usePolled<{ kinds: Kind[] }>("/page/api/kinds", 60_000);
  const plurals = useMemo(() => pluralsOf(served?.kinds ?? []), [served]);
  if (missing) return null;
  return (
    <Panel title="Changes and their causes" wide note={value && plural(value.changes.length, "change")}>
      {error ? (
        <Empty>{error}</Empty>
      ) : !value ? (
        <Loading what="changes" />
      ) : (
        <>
          {value.changes.length === 0 && (
            <Empty>{`No change of ${name} is recorded. The flight recorder keeps an hour by default, and the changes of kinds that a plugin on this host watches or writes.`}</Empty>
          )}
          <Causes explanation={value} plurals={plurals} />
        </>
      )}
    </Panel>
  );
}
