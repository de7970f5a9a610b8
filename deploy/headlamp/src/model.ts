// The status of a Plugin, and what to show of it. No I/O, and nothing of Headlamp.

/** A condition of a Plugin: Loaded, Ready or Degraded. */
export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  lastTransitionTime: string;
}

/** One of a Plugin's controllers. The host updates its counts once a minute. */
export interface Controller {
  name: string;
  /** The kind that it reconciles. */
  for: string;
  reconciles: number;
  errors: number;
  queued: number;
  /** The number of keys whose last reconcile failed. */
  failing: number;
  /** The last failure, while any key fails: `NAMESPACE/NAME: …`. */
  lastError?: string | null;
}

/** The parts of a Plugin's status that are shown. */
export interface Status {
  conditions?: Condition[];
  controllers?: Controller[];
  /** The reason and the message of the most important condition. */
  reason?: string | null;
  message?: string | null;
  digest?: string | null;
  replica?: string | null;
}

/** The state of a Plugin, as `operetta top` names it. */
export type State = "Ready" | "Degraded" | "NotReady" | "Pending" | "Unknown";

/** Returns the state by the conditions Ready and Degraded. */
export function stateOf(status: Status): State {
  const conditions = status.conditions ?? [];
  const statusOf = (type: string) => conditions.find((condition) => condition.type === type)?.status;
  const ready = statusOf("Ready");
  if (ready === "True") {
    return statusOf("Degraded") === "True" ? "Degraded" : "Ready";
  }
  if (ready === "False") {
    return "NotReady";
  }
  return conditions.length === 0 ? "Pending" : "Unknown";
}

/** Returns the color of a state in Headlamp's labels. */
export function colorOf(state: State): "success" | "warning" | "error" | "" {
  switch (state) {
    case "Ready":
      return "success";
    case "Degraded":
      return "warning";
    case "NotReady":
      return "error";
    default:
      return "";
  }
}

/** A command to run in a shell, and what it is good for. */
export interface Command {
  purpose: string;
  text: string;
}

/** Returns the commands that tell more about a Plugin, those for a failure only where there is one. */
export function commandsFor(namespace: string, name: string, status: Status): Command[] {
  const plugin = `${quoted(name)} -n ${quoted(namespace)}`;
  const commands: Command[] = [];
  const state = stateOf(status);
  if (status.reason && (state === "Degraded" || state === "NotReady")) {
    commands.push({ purpose: "Cause and cure", text: `operetta explain ${quoted(status.reason)}` });
  }
  const failing = (status.controllers ?? []).filter((controller) => controller.failing > 0);
  for (const key of new Set(failing.map((controller) => keyOf(controller.lastError)))) {
    if (key !== undefined) {
      const text = `operetta why ${quoted(name)} ${quoted(key)} -n ${quoted(namespace)}`;
      commands.push({ purpose: `Why ${key} fails`, text });
    }
  }
  if (failing.length > 0) {
    commands.push({ purpose: "Retry failed keys now", text: `operetta retry ${plugin}` });
  }
  commands.push({ purpose: "Log", text: `operetta logs ${plugin} -f` });
  return commands;
}

/** Returns the key at the start of a controller's last error. */
function keyOf(lastError: string | null | undefined): string | undefined {
  return /^([a-z0-9][a-z0-9.-]*(?:\/[a-z0-9][a-z0-9.:-]*)?): /.exec(lastError ?? "")?.[1];
}

/** Quotes a word for a shell: a Plugin's status may come from a tenant, and its commands are copied. */
function quoted(word: string): string {
  return /^[A-Za-z0-9][A-Za-z0-9._\/:-]*$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}
