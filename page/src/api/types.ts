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
  /** The commands in the message that solve the problem, as a shell reads them. */
  remedies?: string[];
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
  /** True if it answers lists and watches of processes. */
  forProcesses?: boolean;
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

/** A right that the plugin's calls need and its ServiceAccount does not have. */
export interface MissingRight {
  verb: string;
  group?: string;
  /** The resource; none for a path. */
  resource?: string;
  /** A non-resource path. */
  path?: string;
  /** None for all namespaces. */
  namespace?: string;
  name?: string;
}

/** `/page/api/plugins/NS/NAME`. */
export interface PluginDetails {
  summary: PluginSummary;
  controllers?: ControllerStatus[];
  failing?: FailingKey[];
  informers?: Informer[];
  /** Left out while the plugin does not run. */
  permissions?: { missing: MissingRight[] } | null;
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

/** What triggered a reconcile. */
export interface Trigger {
  /** `added`, `modified`, `deleted`, `initial`, `resync` or `retry`. */
  cause: string;
  /** The object whose event it is, as `Kind namespace/name`. */
  object?: string;
  resourceVersion?: string;
}

/** A call of a reconcile. */
export interface Call {
  /** The verb, with the subresource after a slash. */
  verb: string;
  /** The objects, as `Kind namespace/name`. */
  object: string;
  isCached?: boolean;
  tookMicros?: number;
  resourceVersion?: string;
  /** The fields that a write changed. */
  paths?: string[];
  /** `ok`, `unchanged` for a write that was not sent, `dry run`, or the kind of the error. */
  result: string;
}

/** A reconcile in the host's recorder. */
export interface Reconcile {
  id: string;
  controller: string;
  key: string;
  /** Milliseconds since 1970. */
  started: number;
  waitedMicros?: number;
  tookMicros: number;
  cpuMicros: number;
  /** `success`, `requeue`, `requeue_after`, `error` or `aborted`. */
  result: string;
  requeueAfterMilliseconds?: number;
  /** The reason of an error. */
  error?: string;
  /** The failures in a row before it: the number of the retry. None from an older host. */
  retries?: number;
  /** Those of a retry are the ones of the reconciles that failed. */
  triggers: Trigger[];
  calls: Call[];
  /** The number of triggers and calls that are not recorded. */
  more: number;
}

/** `/page/api/plugins/NS/NAME/reconciles`. */
export interface History {
  /** The newest first. */
  reconciles: Reconcile[];
  /** The number of older ones that are recorded. */
  older: number;
  /** The number of objects that are left out, because the user may not read them. */
  hidden: number;
}

/** `/page/api/plugins/NS/NAME/unused`. */
export interface UnusedRights {
  /** The start of the recording; RFC 3339. */
  since: string;
  unused: string[];
}

/** An object, by its names. */
export interface Named {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
}

/** A reconcile that wrote. */
export interface PluginWriter {
  /** The Plugin as namespace/name. */
  plugin: string;
  controller: string;
  /** The reconciled object. */
  object: Named;
  /** The id of the reconcile. */
  reconcile: string;
  verb: string;
  digest: string;
  serviceAccount: string;
  /** The reads before the write. */
  reads: { text: string; resourceVersion?: string; isCached: boolean }[];
}

/** A writer: a Plugin, one that the user may not get, or somebody outside of the host. */
export type Writer = { plugin: PluginWriter } | "hiddenPlugin" | { outside: { managers: string[] } };

/** A change of an object. */
export interface Step {
  /** Milliseconds since 1970. */
  at: number;
  object: Named;
  /** `created`, `changed` or `deleted`. */
  change: string;
  resourceVersion: string;
  /** The fields that changed, if they are known. */
  paths?: string[];
  by: Writer;
  /** The causes of the reconcile that wrote. */
  because?: Because[];
}

/** A cause of a reconcile. */
export type Because =
  | { change: Step }
  | { seen: { object: Named; resourceVersion: string } }
  | { unrecorded: { object: Named; resourceVersion: string } }
  | { other: { text: string } }
  | "hidden";

/** `/page/api/why/GROUP/VERSION/PLURAL/NAMESPACE/NAME`. */
export interface Explanation {
  /** The newest first. */
  changes: Step[];
  /** The number of older changes that are recorded. */
  older: number;
  /** The number of objects and Plugins that are left out, because the user may not get them. */
  hidden: number;
  /** The replicas of the host that did not answer, with the reason. */
  silent?: string[];
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
