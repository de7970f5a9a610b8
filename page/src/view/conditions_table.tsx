// The conditions of an object as a table.

import { conditionHealth } from "../model/health.ts";
import { Age } from "./age.tsx";
import { DataTable, type DataColumn } from "./data_table.tsx";
import { Message } from "./message.tsx";
import { State } from "./state.tsx";
import type { Condition } from "../api/types.ts";

const COLUMNS: DataColumn<Condition>[] = [
  { title: "Condition", cell: (condition) => condition.type },
  { title: "Status", cell: (condition) => <State health={conditionHealth(condition.type, condition.status)} text={condition.status} /> },
  { title: "Reason", cell: (condition) => condition.reason ?? "" },
  { title: "Changed", numeric: true, cell: (condition) => <Age time={condition.lastTransitionTime} /> },
  { title: "Message", text: true, cell: (condition) => <Message text={condition.message ?? ""} /> },
];

/** The table. */
export function ConditionsTable({ conditions }: { conditions: Condition[] }) {
  return <DataTable label="Conditions" columns={COLUMNS} rows={conditions} rowKey={(condition) => condition.type} />;
}
