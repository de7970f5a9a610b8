// Answers for tests of the browser's side alone. The reconciles and causes are recorded.json, which a host gave for a Foo whose
// Deployment was scaled by hand; the others follow the protocol's description.

import type { Explanation, History, Informer, Kind, ObjectDetails, PluginDetails, PluginSummary, Reconcile, Row, Step, Tenant } from "../../src/api/types.ts";
import { changes, reconciles } from "./recorded.json";

/** A name that would run a script if it were taken as HTML. */
export const HOSTILE = `<img src=x onerror="window.hostile=1">`;

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const running = (namespace: string, name: string, load: number): PluginSummary => ({
  namespace, name, state: "Running", runsOn: ["operetta-6c9f7d8b5-x2x7k"],
  digest: "sha256:3f1d8c0e8c1f7cb9c6dc5e8a3a7f1f2d", reconcilesPerSecond: load, errorsPerSecond: 0,
  p50Ms: 0.21 * load, p99Ms: 3.4 * load, cpuPercent: load / 3, memoryBytes: 1_400_000 * load, queued: Math.round(load / 4), needsAttention: false,
});

/** Returns the Plugins. */
export function plugins(): PluginSummary[] {
  const names = ["app-service", "certificate-rotator", "cloud-manager", "database-backups", "pod-tracker", "sample-controller", "webhook-relay"];
  return [
    ...names.map((name, i) => running(i % 2 ? "team-b" : "team-a", name, 1 + i * 3.5)),
    {
      ...running("team-b", "image-mirror", 0), state: "Degraded", reason: "ReconcileFailing", queued: 12, errorsPerSecond: 1.8, needsAttention: true,
      message: `3 keys fail: failed to decode Mirror team-b/nightly: missing field spec.registry ${HOSTILE}`,
      cure: "read the errors with operetta logs team-b/image-mirror, and mend the objects or the plugin",
    },
    { namespace: "team-c", name: "quota-keeper", state: "Waiting", reason: "ConsentMissing", needsAttention: true, runsOn: [],
      message: "ServiceAccount team-c/quota-keeper does not allow the host to act as it",
      cure: "kubectl annotate serviceaccount -n team-c quota-keeper operetta.dev/run-plugins=quota-keeper" },
    { namespace: "team-c", name: "spare", state: "Paused", runsOn: [] },
  ];
}

/** Returns the informers of the host. */
export function informers(): Informer[] {
  return [
    { kind: "Foo.samplecontroller.example.dev/v1alpha1", namespace: null, labelSelector: "", synced: true, objects: 1240, bytes: 2_480_112, watches: 3, relists: 0, events: 18_422, heardSeconds: 4, current: true, users: ["team-b/sample-controller"] },
    { kind: "Deployment.apps/v1", namespace: null, labelSelector: "app.kubernetes.io/managed-by=sample-controller", synced: true, objects: 1238, bytes: 9_120_000, watches: 4, relists: 1, events: 40_000, heardSeconds: 1, current: true, users: ["team-a/app-service", "team-b/sample-controller"] },
    { kind: "Pod.v1", namespace: "team-a", fieldSelector: "spec.nodeName!=", metadataOnly: true, synced: true, objects: 310, bytes: 220_000, watches: 9, relists: 2, events: 3_000, heardSeconds: 75, current: false, users: ["team-a/pod-tracker", "host"] },
    { kind: "Mirror.example.dev/v1", namespace: null, synced: false, objects: 0, bytes: 0, watches: 1, relists: 0, events: 0, heardSeconds: null, current: null, users: ["team-b/image-mirror"], error: "mirrors.example.dev is forbidden: User \"system:serviceaccount:team-b:image-mirror\" cannot list resource \"mirrors\" at the cluster scope" },
  ];
}

/** Returns the details of a Plugin, or undefined if there is none of the name. */
export function plugin(namespace: string, name: string): PluginDetails | undefined {
  const summary = plugins().find((other) => other.namespace === namespace && other.name === name);
  if (!summary) return undefined;
  if (summary.state === "Paused") return { summary, controllers: [], failing: [], informers: [], permissions: { missing: [] }, conditions: [] };
  const bad = summary.state === "Degraded";
  return {
    summary,
    controllers: [
      { name: "foos", kind: "Foo", apiVersion: "samplecontroller.example.dev/v1alpha1", plural: "foos", queued: 12, oldestSeconds: 4.2, workers: 4, reconciles: 184_220, errors: bad ? 1902 : 3 },
      { name: "deployments", kind: "Deployment", apiVersion: "apps/v1", plural: "deployments", queued: 0, oldestSeconds: null, workers: 2, reconciles: 2200, errors: 0 },
    ],
    failing: bad
      ? [
          { controller: "foos", key: "default/foo-0003", retries: 7, error: "failed to decode Mirror team-b/nightly: missing field `spec.registry` at line 1 column 211", nextTry: new Date(Date.now() + 12_000).toISOString() },
          { controller: "foos", key: "default/foo-0009", retries: 3, error: `deployments.apps is forbidden: User "system:serviceaccount:team-b:image-mirror" cannot create resource "deployments" in API group "apps" in the namespace "default" ${HOSTILE}`, nextTry: new Date(Date.now() + 2_000).toISOString() },
        ]
      : [],
    informers: informers().slice(0, 2),
    permissions: { missing: bad ? [{ verb: "create", group: "apps", resource: "deployments", namespace: "default" }] : [] },
    conditions: [
      { type: "Ready", status: bad ? "False" : "True", reason: bad ? "ReconcileFailing" : "Running", message: bad ? "3 keys fail" : "All controllers run", lastTransitionTime: ago(340) },
      { type: "Loaded", status: "True", reason: "Compiled", message: "", lastTransitionTime: ago(90_000) },
    ],
  };
}

/** Returns reconciles that a host recorded, as if they were of the last minutes. */
export function history(): History {
  const recorded = reconciles as Reconcile[];
  return { reconciles: shifted(recorded, (reconcile) => reconcile.started, (reconcile, started) => ({ ...reconcile, started })), older: 17, hidden: 2 };
}

/** Moves the times of records, so that the newest is of five seconds ago. */
function shifted<T>(records: T[], time: (record: T) => number, at: (record: T, time: number) => T): T[] {
  const by = Date.now() - 5000 - Math.max(...records.map(time));
  return records.map((record) => at(record, time(record) + by));
}

/** Returns the kinds. */
export function kinds(): Kind[] {
  const kind = (group: string, version: string, name: string, plural: string, custom: boolean, namespaced = true): Kind => ({ group, version, kind: name, plural, namespaced, custom, verbs: ["get", "list", "watch"] });
  return [
    kind("", "v1", "Pod", "pods", false), kind("", "v1", "Service", "services", false), kind("", "v1", "ConfigMap", "configmaps", false), kind("", "v1", "Secret", "secrets", false), kind("", "v1", "Node", "nodes", false, false), kind("", "v1", "Namespace", "namespaces", false, false),
    { ...kind("", "v1", "Binding", "bindings", false), verbs: ["create"] },
    kind("apps", "v1", "Deployment", "deployments", false), kind("apps", "v1", "ReplicaSet", "replicasets", false), kind("apps", "v1", "StatefulSet", "statefulsets", false), kind("apps", "v1", "DaemonSet", "daemonsets", false),
    kind("batch", "v1", "Job", "jobs", false), kind("batch", "v1", "CronJob", "cronjobs", false),
    kind("samplecontroller.example.dev", "v1alpha1", "Foo", "foos", true),
    kind("example.dev", "v1", "Ten", "tens", true), kind("example.dev", "v1", "Hundred", "hundreds", true), kind("example.dev", "v1", "Empty", "empties", true), kind("example.dev", "v1", "Secretive", "secretives", true), kind("example.dev", "v1", "Vanishing", "vanishings", true),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, false), kind("networking.k8s.io", "v1", "Ingress", "ingresses", false),
  ];
}

/** The printer columns of all kinds here. */
export const COLUMNS = [
  { name: "Name", type: "string", priority: 0 }, { name: "Deployment", type: "string", priority: 0 }, { name: "Replicas", type: "integer", priority: 0 },
  { name: "Available", type: "integer", priority: 0 }, { name: "Message", type: "string", priority: 0 }, { name: "Image", type: "string", priority: 1 }, { name: "Age", type: "date", priority: 0 },
];

/** Returns the row number `i`; `turn` changes what it shows. */
export function row(i: number, turn = 0): Row {
  const name = i === 5 ? HOSTILE : `foo-${String(i).padStart(4, "0")}`;
  const health = i % 17 === 0 ? "bad" : i % 9 === 0 ? "progressing" : "ok";
  const replicas = 1 + (i % 5);
  const message = health === "bad" ? "ImagePullBackOff: the image does not exist in the registry" : health === "progressing" ? "rolling out" : "";
  return {
    uid: `uid-${i}`, namespace: i % 4 ? "default" : "team-a", name,
    cells: [name, `${name}-deployment`, replicas, health === "ok" ? replicas : (turn % replicas), message, "registry.example.dev/foo:1.2.3", "5m"],
    created: ago(30 + (i * 7919) % 900_000), health,
    conditions: { Ready: health === "ok" ? "True" : "False", Progressing: health === "progressing" ? "True" : "False" },
  };
}

/** Returns the details of an object. */
export function object(namespace: string, name: string, kind: string, apiVersion: string): ObjectDetails {
  const foo = kind === "Foo";
  const yaml = `apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata:\n  name: '${name.replaceAll("'", "''")}'\n  namespace: ${namespace || "none"}\n  labels:\n    app.kubernetes.io/name: foo\n    note: '${HOSTILE}'\nspec:\n  deploymentName: ${name}-deployment\n  replicas: 3\n  script: |\n    # key: not a key\n    echo hello\n  ports:\n    - name: http\n      port: 8080\nstatus:\n  availableReplicas: 3\n`;
  if (!foo) return { yaml, summary: { kind, apiVersion, uid: "0c1c9d8e", created: ago(500) } };
  const children = [
    { apiVersion: "apps/v1", kind: "Deployment", namespace, name: `${name}-deployment`, plural: "deployments", health: "bad" as const },
    ...Array.from({ length: 16 }, (_, i) => ({ apiVersion: "v1", kind: "ConfigMap", namespace, name: `${name}-part-of-a-long-name-${i}`, plural: "configmaps", health: "ok" as const })),
  ];
  return {
    yaml, cut: false, summary: { kind, apiVersion, uid: "6d9c1d53-7d5e-4d0f-9d6d-2f3d6f0a9b1c", created: ago(5000), deleting: false },
    conditions: [
      { type: "Ready", status: "False", reason: "DeploymentUnavailable", message: "Deployment has 1 of 3 replicas available; ImagePullBackOff in Pod foo-0001-deployment-5d4f-abcde", lastTransitionTime: ago(300) },
      { type: "Progressing", status: "True", reason: "NewReplicaSet", message: "", lastTransitionTime: ago(310) },
    ],
    owners: [{ apiVersion: "example.dev/v1", kind: "Ten", namespace, name: "the-owner", plural: "tens", health: "ok" }], children,
    events: [
      { type: "Normal", reason: "Synced", message: "Foo synced successfully", count: 14, last: ago(12), from: "sample-controller" },
      { type: "Warning", reason: "Failed", message: `Deployment "x" could not be applied: conflict with "kubectl" over .spec.replicas ${HOSTILE}`, count: 2, last: ago(400), from: "sample-controller" },
    ],
    plugins: [{ namespace: "team-b", name: "sample-controller", controller: "foos" }],
  };
}

/** Returns changes that a host recorded, with their causes. */
export function explanation(): Explanation {
  const recorded = changes as Step[];
  return { changes: shifted(recorded, (step) => step.at, (step, at) => ({ ...step, at })), older: 3, hidden: 1, silent: ["operetta-2: timed out"] };
}

/** Returns the tenants. */
export function tenants(): Tenant[] {
  const quotas = (used: number) => [{ quota: "cpu", used, limit: 2 }, { quota: "memory", used: used * 100, limit: 512 }, { quota: "apiQps", used: used * 20, limit: 100 }, { quota: "plugins", used: 3, limit: null }];
  return [
    { namespace: "team-a", share: 0.5, cpuPercent: 12.5, throttledPercent: 0, quotas: quotas(0.4), plugins: 4, overQuota: 0 },
    { namespace: "team-b", share: 0.25, cpuPercent: 98.2, throttledPercent: 31.4, quotas: quotas(1.96), plugins: 5, overQuota: 0 },
    { namespace: "team-c", share: 0.25, cpuPercent: 0, throttledPercent: 0, quotas: quotas(0), plugins: 2, overQuota: 1 },
  ];
}
