// The JSON of the host's `/page/api/`, as docs/page.md describes it. The host is trusted for the shape of an answer, never for
// the texts in it: those come from objects and plugins, and the page shows them as text.

/** `/page/api/me`: the user, the host, and the host's clock. */
export interface Me {
  user: string;
  host: string;
  version: string;
  /** The time of the host; RFC 3339. */
  time: string;
}

/** An error's body. */
export interface Failure {
  reason: string;
  message: string;
  status?: number;
}

/** A Plugin in the list of Plugins. */
export interface PluginSummary {
  namespace: string;
  name: string;
  state: string;
  reason?: string;
  message?: string;
  /** The command or change that helps. */
  cure?: string;
  /** The Pods of the host that run it. */
  runsOn?: string[];
  digest?: string;
  reconcilesPerSecond?: number;
  errorsPerSecond?: number;
  p50Ms?: number;
  p99Ms?: number;
  cpuPercent?: number;
  memoryBytes?: number;
  queued?: number;
  needsAttention?: boolean;
}

/** `/page/api/plugins`. */
export interface PluginList {
  plugins: PluginSummary[];
  /** The number of Plugins that the user may not see. */
  hidden?: number;
  /** The missing right, if all are hidden. */
  forbidden?: string;
}

/** A controller of a Plugin. */
export interface ControllerStatus {
  name: string;
  kind: string;
  apiVersion: string;
  plural: string;
  queued?: number;
  oldestSeconds?: number | null;
  workers?: number;
  reconciles?: number;
  errors?: number;
}

/** A key that fails. */
export interface FailingKey {
  controller: string;
  key: string;
  retries: number;
  error: string;
  /** The time of the next attempt; RFC 3339. */
  nextTry?: string | null;
}

/** A condition of an object. */
export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string | null;
}

/** An informer, as `operetta informers -o json` prints it. */
export interface Informer {
  kind: string;
  namespace?: string | null;
  labelSelector?: string;
  fieldSelector?: string;
  metadataOnly?: boolean;
  synced?: boolean;
  objects?: number;
  bytes?: number;
  watches?: number;
  relists?: number;
  events?: number;
  heardSeconds?: number | null;
  revision?: number;
  serverRevision?: number | null;
  current?: boolean | null;
  users?: string[];
  error?: string | null;
}

/** `/page/api/plugins/NS/NAME`. */
export interface PluginDetails {
  summary: PluginSummary;
  controllers?: ControllerStatus[];
  failing?: FailingKey[];
  informers?: Informer[];
  permissions?: { missing?: unknown[]; unused?: unknown[] } | null;
  conditions?: Condition[];
  forbidden?: string;
}

/** A line of a Plugin's log, as `operetta logs -o json` prints it. */
export interface LogLine {
  time: string;
  level: string;
  controller?: string;
  key?: string;
  reconcileId?: string;
  message: string;
  fields?: [string, string][];
}

/** A write of a reconcile. */
export interface RecordedWrite {
  verb: string;
  kind: string;
  key: string;
  result?: string;
  paths?: string[];
}

/** A reconcile in the host's recorder. */
export interface Reconcile {
  id: string;
  controller: string;
  key: string;
  /** RFC 3339. */
  started: string;
  seconds: number;
  cpuSeconds?: number;
  outcome: string;
  triggers?: string[];
  reads?: number;
  writes?: RecordedWrite[];
}

/** A change of an object and its causes, newest cause last. */
export interface Change {
  at: string;
  resourceVersion?: string;
  text: string;
  paths?: string[];
  because?: { text: string }[];
}

/** A kind that the API server serves. */
export interface Kind {
  /** Empty for the core group. */
  group: string;
  version: string;
  kind: string;
  plural: string;
  namespaced: boolean;
  /** True if a CustomResourceDefinition defines it. */
  custom: boolean;
  verbs?: string[];
}

/** A printer column. */
export interface Column {
  name: string;
  type?: string;
  priority?: number;
}

/** The health of an object, from its conditions, replicas and deletion. */
export type Health = "ok" | "progressing" | "bad" | "unknown";

/** An object in the table of its kind. */
export interface Row {
  uid: string;
  namespace?: string;
  name: string;
  /** The printer columns' cells. */
  cells: unknown[];
  created?: string;
  health?: Health;
  conditions?: Record<string, string>;
}

/** The event `object`. */
export interface ObjectDetails {
  yaml: string;
  /** True if the YAML was cut because of its size. */
  cut?: boolean;
  summary: { kind: string; apiVersion: string; uid?: string; created?: string; deleting?: boolean; health?: Health };
  conditions?: Condition[];
  owners?: ObjectLink[];
  children?: ObjectLink[];
  events?: ObjectEvent[];
  plugins?: { namespace: string; name: string; controller?: string }[];
}

/** An owner or a child of an object. */
export interface ObjectLink {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
  plural?: string;
  health?: Health;
}

/** An Event about an object. */
export interface ObjectEvent {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  last?: string;
  from?: string;
}

/** A tenant: a namespace with Plugins. */
export interface Tenant {
  namespace: string;
  share?: number;
  cpuPercent?: number;
  throttledPercent?: number;
  quotas?: { quota: string; used: number | string; limit: number | string | null }[];
  plugins?: number;
  overQuota?: number;
}
