// Informers as a table: all of a host, or those of a Plugin.

import { age } from "../model/age.ts";
import { Fragment } from "preact";
import { informerState } from "../model/informers.ts";
import { pluginPath } from "../model/route.ts";
import { bytes, count, NONE } from "../model/units.ts";
import { DataTable, type DataColumn } from "./data_table.tsx";
import { State } from "./state.tsx";
import type { Informer } from "../api/types.ts";

/** Describes what it watches, beside the kind. */
function scopeOf(informer: Informer): string {
  const parts = [informer.namespace || "all namespaces"];
  if (informer.labelSelector) parts.push(`labels ${informer.labelSelector}`);
  if (informer.fieldSelector) parts.push(`fields ${informer.fieldSelector}`);
  if (informer.metadataOnly) parts.push("metadata only");
  if (informer.forProcesses) parts.push("for processes");
  return parts.join(", ");
}

function Dotted({ name }: { name: string }) {
  return (
    <span class="dotted">
      {name.split(".").map((part, i) => (
        <Fragment key={i}>
          {i > 0 && "."}
          {i > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </span>
  );
}

function Users({ users }: { users: string[] }) {
  return (
    <>
      {users.map((user) => (
        <div key={user}>{user.includes("/") ? <a href={pluginPath(user)}>{user}</a> : user}</div>
      ))}
    </>
  );
}

const COLUMNS: DataColumn<Informer>[] = [
  { title: "Kind", text: true, cell: (informer) => <Dotted name={informer.kind} /> },
  { title: "Scope", text: true, cell: scopeOf },
  {
    title: "State",
    text: true,
    cell: (informer) => {
      const state = informerState(informer);
      return <State health={state.health} text={state.text} />;
    },
  },
  { title: "Objects", numeric: true, cell: (informer) => count(informer.objects) },
  { title: "Memory", numeric: true, cell: (informer) => bytes(informer.bytes) },
  { title: "Events", numeric: true, cell: (informer) => count(informer.events) },
  { title: "Watches", numeric: true, cell: (informer) => count(informer.watches) },
  { title: "Relists", numeric: true, cell: (informer) => count(informer.relists) },
  { title: "Heard", numeric: true, cell: (informer) => (typeof informer.heardSeconds === "number" ? `${age(new Date(0).toISOString(), informer.heardSeconds * 1000)} ago` : NONE) },
];
const USERS: DataColumn<Informer> = { title: "Used by", cell: (informer) => <Users users={informer.users ?? []} /> };

/** Identifies an informer. */
function keyOf(informer: Informer): string {
  return [informer.kind, informer.namespace, informer.labelSelector, informer.fieldSelector, informer.metadataOnly, informer.forProcesses].join("|");
}

/** The table. */
export function InformersTable({ informers, users }: { informers: Informer[]; users: boolean }) {
  return <DataTable label="Informers" columns={users ? [...COLUMNS, USERS] : COLUMNS} rows={informers} rowKey={keyOf} />;
}
