// One Plugin: its controllers, keys that fail, reconciles, rights, informers and log.

import { useValue, usePolled } from "../api/use.ts";
import { shortDigest } from "../model/causes.ts";
import { fitted } from "../model/graph.ts";
import { pluginHealth } from "../model/health.ts";
import { describeRight } from "../model/rights.ts";
import { apiPath, format, objectPath, splitApiVersion, splitKey, type Route } from "../model/route.ts";
import { duration } from "../model/age.ts";
import { bytes, count, milliseconds, NONE, percent, plural, rate } from "../model/units.ts";
import { Age, Until } from "../view/age.tsx";
import { ConditionsTable } from "../view/conditions_table.tsx";
import { DataTable, type DataColumn } from "../view/data_table.tsx";
import { InformersTable } from "../view/informers_table.tsx";
import { Log } from "../view/log.tsx";
import { Message } from "../view/message.tsx";
import { PageHead } from "../view/page_head.tsx";
import { Empty, Loading, Panel, Refusal, Stat } from "../view/panel.tsx";
import { State } from "../view/state.tsx";
import { Timeline } from "../view/timeline.tsx";
import type { ControllerStatus, FailingKey, History, PluginDetails, PluginSummary, UnusedRights } from "../api/types.ts";

/** The page. */
export function PluginPage({ route }: { route: Extract<Route, { page: "plugin" }> }) {
  const url = apiPath(route);
  const { value, status } = useValue<PluginDetails>(url, "plugin");
  const name = `${route.namespace}/${route.name}`;
  return (
    <>
      <PageHead title={name} context="Plugin" crumbs={[{ text: "Plugins", href: "/page/plugins" }]}>
        {value && <Summary summary={value.summary} />}
      </PageHead>
      {status.phase === "failed" ? <Refusal what={`Plugin ${name}`} status={status} /> : value ? <Details url={url} details={value} /> : <Loading what="the plugin" lines={16} />}
    </>
  );
}

function Summary({ summary }: { summary: PluginSummary }) {
  return (
    <>
      <p class="summary">
        <State health={pluginHealth(summary.state, summary.needsAttention)} text={summary.state} />
        {summary.reason && summary.reason !== summary.state && <strong>{summary.reason}</strong>}
      </p>
      {summary.message && (
        <p>
          <Message text={summary.message} remedies={summary.remedies} />
        </p>
      )}
      {summary.cure && (
        <p class="cure">
          <strong>Cure: </strong>
          <Message text={summary.cure} />
        </p>
      )}
      <dl class="stats">
        <Stat name="Reconciles" value={rate(summary.reconcilesPerSecond)} />
        <Stat name="Errors" value={rate(summary.errorsPerSecond)} />
        <Stat name="p50" value={milliseconds(summary.p50Ms)} />
        <Stat name="p99" value={milliseconds(summary.p99Ms)} />
        <Stat name="CPU" value={percent(summary.cpuPercent)} />
        <Stat name="Memory" value={bytes(summary.memoryBytes)} />
        <Stat name="Queued" value={count(summary.queued)} />
        <Stat name="Runs on" value={summary.runsOn?.map((host) => fitted(host, 24)).join(", ") || NONE} title={summary.runsOn?.join(", ") ?? ""} />
        <Stat name="Digest" value={summary.digest ? shortDigest(summary.digest) : NONE} title={summary.digest ?? ""} />
      </dl>
    </>
  );
}

function Details({ url, details }: { url: string; details: PluginDetails }) {
  const controllers = details.controllers ?? [];
  const failing = details.failing ?? [];
  const conditions = details.conditions ?? [];
  const informers = details.informers ?? [];
  return (
    <div class="panels">
      {details.forbidden && <p class="warning wide">{details.forbidden}</p>}
      <Panel title="Controllers" wide note={plural(controllers.length, "controller")} empty={controllers.length === 0 && "The plugin runs no controllers."}>
        <DataTable label="Controllers" columns={CONTROLLERS} rows={controllers} rowKey={(controller) => controller.name} />
      </Panel>
      <Panel title="Failing keys" wide note={plural(failing.length, "key")} empty={failing.length === 0 && "No key fails."}>
        <DataTable label="Failing keys" columns={failingColumns(controllers)} rows={failing} rowKey={(key) => `${key.controller} ${key.key}`} />
      </Panel>
      <Panel title="Conditions" wide empty={conditions.length === 0 && "The Plugin has no conditions."}>
        <ConditionsTable conditions={conditions} remedies={details.summary.remedies} />
      </Panel>
      <Rights url={`${url}/unused`} permissions={details.permissions} />
      <Reconciles url={`${url}/reconciles`} controllers={controllers} />
      <Log url={`${url}/log`} />
      <Panel title="Informers" wide note={plural(informers.length, "informer")} empty={informers.length === 0 && "The plugin uses no informers."}>
        <InformersTable informers={informers} users={false} />
      </Panel>
    </div>
  );
}

const CONTROLLERS: DataColumn<ControllerStatus>[] = [
  { title: "Controller", cell: (controller) => controller.name },
  {
    title: "Kind",
    cell: (controller) => <a href={format({ page: "kind", ...splitApiVersion(controller.apiVersion), plural: controller.plural })}>{controller.kind}</a>,
  },
  { title: "Queued", numeric: true, cell: (controller) => count(controller.queued) },
  { title: "Oldest", numeric: true, cell: (controller) => (typeof controller.oldestSeconds === "number" ? duration(controller.oldestSeconds * 1000) : NONE) },
  { title: "Workers", numeric: true, cell: (controller) => count(controller.workers) },
  { title: "Reconciles", numeric: true, cell: (controller) => count(controller.reconciles) },
  { title: "Errors", numeric: true, cell: (controller) => count(controller.errors) },
];

/** Returns the path of a key's object, whose kind is the controller's. */
function keyPath(controllers: ControllerStatus[], { controller, key }: { controller: string; key: string }): string | undefined {
  const found = controllers.find((other) => other.name === controller);
  return found && objectPath({ ...found, ...splitKey(key) });
}

/** Returns the columns of failing keys. */
function failingColumns(controllers: ControllerStatus[]): DataColumn<FailingKey>[] {
  const link = (failing: FailingKey) => {
    const href = keyPath(controllers, failing);
    return href ? <a href={href}>{failing.key}</a> : failing.key;
  };
  return [
    { title: "Key", cell: link },
    { title: "Controller", cell: (failing) => failing.controller },
    { title: "Retries", numeric: true, cell: (failing) => count(failing.retries) },
    { title: "Next try", numeric: true, cell: (failing) => <Until time={failing.nextTry} /> },
    { title: "Last error", text: true, cell: (failing) => failing.error },
  ];
}

function Reconciles({ url, controllers }: { url: string; controllers: ControllerStatus[] }) {
  const { value, missing, error } = usePolled<History>(url, 3000);
  if (missing) return null;
  const { reconciles = [], older = 0, hidden = 0 } = value ?? {};
  const note = [plural(reconciles.length, "reconcile"), older > 0 && `${count(older)} older`, hidden > 0 && `${count(hidden)} triggers and calls left out: you may not get their objects`];
  return (
    <Panel title="Recent reconciles" wide note={value && note.filter(Boolean).join(" · ")} empty={value && reconciles.length === 0 && "No reconcile is recorded. The flight recorder keeps an hour by default."}>
      {error ? (
        <Empty>{error}</Empty>
      ) : !value ? (
        <Loading what="reconciles" />
      ) : (
        <Timeline reconciles={reconciles} href={(reconcile) => keyPath(controllers, reconcile)} />
      )}
    </Panel>
  );
}

function Rights({ url, permissions }: { url: string; permissions: PluginDetails["permissions"] }) {
  const { value, error } = usePolled<UnusedRights>(url, 15_000);
  const missing = permissions?.missing;
  return (
    <Panel title="Rights" wide>
      <h3>
        <State health={!missing ? "unknown" : missing.length > 0 ? "bad" : "ok"} text={!missing ? "Missing rights are not known" : missing.length > 0 ? `${missing.length} missing` : "None missing"} />
      </h3>
      <RightsList rights={missing?.map(describeRight) ?? []} />
      <h3>
        <State health="unknown" text={!value ? "Unused rights are not known" : value.unused.length > 0 ? `${value.unused.length} unused` : "None unused"} />
        {value && (
          <span class="note">
            {" in "}
            <Age time={value.since} />
          </span>
        )}
      </h3>
      {error ? <p class="note">{error}</p> : <RightsList rights={value?.unused ?? []} />}
    </Panel>
  );
}

function RightsList({ rights }: { rights: string[] }) {
  return rights.length === 0 ? null : (
    <ul class="rights">
      {rights.map((right) => (
        <li key={right}>
          <code>{right}</code>
        </li>
      ))}
    </ul>
  );
}
