// The conditions of an object as a table.

import { conditionHealth } from "../model/health.ts";
import { Age } from "./age.tsx";
import { DataTable, type DataColumn } from "./data_table.tsx";
import { Message } from "./message.tsx";
import { State } from "./state.tsx";
import type { Condition } from "../api/types.ts";

const columns = (remedies: string[]): DataColumn<Condition>[] => [
  { title: "Condition", cell: (condition) => condition.type },
  { title: "Status", cell: (condition) => <State health={conditionHealth(condition.type, condition.status)} text={condition.status} /> },
  { title: "Reason", cell: (condition) => condition.reason ?? "" },
  { title: "Changed", numeric: true, cell: (condition) => <Age time={condition.lastTransitionTime} /> },
  { title: "Message", text: true, cell: (condition) => <Message text={condition.message ?? ""} remedies={remedies} /> },
];

/** The table; `remedies` are the commands in the messages that are the host's. */
export function ConditionsTable({ conditions, remedies = [] }: { conditions: Condition[]; remedies?: string[] | undefined }) {
  return <DataTable label="Conditions" columns={columns(remedies)} rows={conditions} rowKey={(condition) => condition.type} />;
}
