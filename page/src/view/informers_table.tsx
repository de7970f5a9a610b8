// Informers as a table: all of a host, or those of a Plugin.

import { age } from "../model/age.ts";
import { bytes, count, NONE } from "../model/units.ts";
import { DataTable, type DataColumn } from "./data_table.tsx";
import { State } from "./state.tsx";
import type { Health, Informer } from "../api/types.ts";

function stateOf(informer: Informer): { health: Health; text: string } {
  if (informer.error) return { health: "bad", text: informer.error };
  if (informer.synced === false) return { health: "progressing", text: "Syncing" };
  if (informer.current === false) return { health: "progressing", text: "Behind the API server" };
  return { health: "ok", text: informer.current ? "Current" : "Synced" };
}

/** Describes what it watches, beside the kind. */
function scopeOf(informer: Informer): string {
  const parts = [informer.namespace || "all namespaces"];
  if (informer.labelSelector) parts.push(`labels ${informer.labelSelector}`);
  if (informer.fieldSelector) parts.push(`fields ${informer.fieldSelector}`);
  if (informer.metadataOnly) parts.push("metadata only");
  return parts.join(", ");
}

function Users({ users }: { users: string[] }) {
  return (
    <>
      {users.map((user) => (
        <div key={user}>{user.includes("/") ? <a href={`/page/plugins/${user.split("/").map(encodeURIComponent).join("/")}`}>{user}</a> : user}</div>
      ))}
    </>
  );
}

const COLUMNS: DataColumn<Informer>[] = [
  { title: "Kind", cell: (informer) => informer.kind },
  { title: "Scope", text: true, cell: scopeOf },
  {
    title: "State",
    text: true,
    cell: (informer) => {
      const state = stateOf(informer);
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
  return [informer.kind, informer.namespace, informer.labelSelector, informer.fieldSelector, informer.metadataOnly].join("|");
}

/** The table. */
export function InformersTable({ informers, users }: { informers: Informer[]; users: boolean }) {
  return <DataTable label="Informers" columns={users ? [...COLUMNS, USERS] : COLUMNS} rows={informers} rowKey={keyOf} />;
}
