import { test } from "node:test";
import assert from "node:assert/strict";
import { age, duration, parseDuration, until } from "../../src/model/age.ts";
import { HostClock } from "../../src/model/clock.ts";
import { shownColumns } from "../../src/model/columns.ts";
import { afterBreak, serverLost, backoff, worst } from "../../src/model/connection.ts";
import { EVERYTHING, fromQuery, hostQuery, textMatcher, toggled, toQuery } from "../../src/model/filter.ts";
import { conditionHealth, pluginHealth } from "../../src/model/health.ts";
import { groupKinds } from "../../src/model/kinds.ts";
import { LogBuffer } from "../../src/model/log_buffer.ts";
import { orderPlugins } from "../../src/model/plugins.ts";
import { informerState } from "../../src/model/informers.ts";
import { messageParts } from "../../src/model/message.ts";
import { describeRight } from "../../src/model/rights.ts";
import { apiPath, format, objectPath, parse, signIn, type Route } from "../../src/model/route.ts";
import { timeline } from "../../src/model/timeline.ts";
import { bytes, decimal, milliseconds } from "../../src/model/units.ts";
import { moved, scrollToShow, windowAt } from "../../src/model/window.ts";
import { yamlLines } from "../../src/model/yaml.ts";
import type { Informer, Kind, Reconcile } from "../../src/api/types.ts";

test("durations read as kubectl's", () => {
  const minute = 60_000;
  const cases: [number, string][] = [[0, "0s"], [119_000, "119s"], [3 * minute + 12_000, "3m12s"], [11 * minute, "11m"], [190 * minute, "3h10m"], [30 * 60 * minute, "30h"], [76 * 60 * minute, "3d4h"], [400 * 1440 * minute, "400d"], [-5, "0s"]];
  for (const [ms, text] of cases) assert.equal(duration(ms), text);
});
test("durations are parsed back", () => {
  assert.equal(parseDuration("3d4h"), 76 * 3_600_000);
  assert.equal(parseDuration("soon"), undefined);
});
test("an age needs a time", () => {
  assert.equal(age("2025-01-01T00:00:00Z", Date.parse("2025-01-01T00:00:09Z")), "9s");
  assert.equal(age("yesterday", 0), "");
  assert.equal(until("2025-01-01T00:00:09Z", Date.parse("2025-01-01T00:00:00Z")), "in 9s");
  assert.equal(until("2025-01-01T00:00:00Z", Date.parse("2025-01-01T00:00:09Z")), "now");
});
test("the clock is the host's, half of the request's time away", () => {
  let now = 1000;
  const clock = new HostClock(() => now);
  clock.set("1970-01-01T01:00:00Z", 900, 1100);
  now = 2000;
  assert.equal(clock.now(), 3_600_000 + 1000);
  clock.set("not a time", 0, 0);
  assert.equal(clock.now(), 3_600_000 + 1000);
});
test("each place has an address that leads back to it", () => {
  const places: Route[] = [
    { page: "plugins" }, { page: "kinds" }, { page: "tenants" }, { page: "informers" },
    { page: "plugin", namespace: "a", name: "b/c d" },
    { page: "kind", group: "", version: "v1", plural: "pods" },
    { page: "object", group: "apps", version: "v1", plural: "deployments", namespace: "x", name: "<b>" },
    { page: "object", group: "", version: "v1", plural: "nodes", namespace: "", name: "n" },
  ];
  for (const place of places) assert.deepEqual(parse(format(place)), place);
  assert.equal(format({ page: "object", group: "", version: "v1", plural: "nodes", namespace: "", name: "n" }), "/page/objects/core/v1/nodes/_/n");
  assert.equal(apiPath({ page: "kind", group: "", version: "v1", plural: "pods" }), "/page/api/kinds/core/v1/pods");
});
test("an address that names nothing is unknown", () => {
  for (const path of ["/other", "/page/plugins/a", "/page/kinds/a/b", "/page/x", "/page/%zz"]) assert.equal(parse(path).page, "unknown");
  assert.equal(parse("/page/").page, "plugins");
});
test("an object without a plural has no address", () => {
  assert.equal(objectPath({ apiVersion: "v1", name: "x" }), undefined);
  assert.equal(objectPath({ apiVersion: "apps/v1", plural: "deployments", namespace: "n", name: "x" }), "/page/objects/apps/v1/deployments/n/x");
});
test("the sign-in leads back into the page only", () => {
  assert.equal(signIn("/page/kinds?q=a"), "/page/sign-in?next=%2Fpage%2Fkinds%3Fq%3Da");
  assert.equal(signIn("//evil.example"), "/page/sign-in?next=%2Fpage%2F");
});
test("a filter survives the address", () => {
  const filter = { namespace: "n", labelSelector: "a=b,c!=d", q: "x -y", facets: ["health:bad", "Ready=False"], sort: "Age", descending: true, wide: true };
  assert.deepEqual(fromQuery(toQuery(filter)), filter);
  assert.equal(toQuery(EVERYTHING), "");
  assert.equal(hostQuery(filter), "?namespace=n&labelSelector=a%3Db%2Cc%21%3Dd");
});
test("a word after a minus must be missing", () => {
  const matches = textMatcher("Foo -bar");
  assert.deepEqual(["foo", "foo bar", "baz"].map(matches), [true, false, false]);
  assert.deepEqual(toggled(["a", "b"], "a"), ["b"]);
});
test("printer columns leave out what every kind has, and those of lower priority unless wanted", () => {
  const columns = [{ name: "Name" }, { name: "Ready" }, { name: "Image", priority: 1 }, { name: "Age" }];
  const rows = [{ uid: "a", name: "a", cells: ["a", "a text of thirty characters ...", "i", "1s"] }];
  assert.deepEqual(shownColumns(columns, rows, false).map(({ title, cell, width }) => [title, cell, width]), [["Ready", 1, 32]]);
  assert.deepEqual(shownColumns(columns, rows, true).map((column) => column.title), ["Ready", "Image"]);
});
test("a broken stream waits longer each time, signs in after 401 and shows a refusal", () => {
  assert.ok(backoff(0, 1) < backoff(3, 1) && backoff(50, 1) <= 10_000);
  assert.deepEqual(afterBreak({ status: 401 }, 0, 0), { do: "sign-in" });
  assert.deepEqual(afterBreak("json", 0, 0), { do: "poll" });
  const refused = afterBreak({ status: 403, reason: "Forbidden", message: "you may not" }, 0, 0);
  assert.ok(refused.do === "retry" && refused.status.phase === "failed" && refused.status.message === "you may not");
  const away = afterBreak("unreachable", 0, 0);
  assert.ok(away.do === "retry" && away.status.phase === "lost");
  const busy = afterBreak({ status: 429, message: "10 streams are open" }, 0, 0);
  assert.ok(busy.do === "retry" && busy.status.phase === "lost" && busy.status.message === "10 streams are open");
  const closed = afterBreak({ status: 200 }, 0, 0);
  assert.ok(closed.do === "retry" && closed.status.phase === "connecting" && closed.after <= 250);
});
test("too many streams of the user are a refusal, too many requests are a loss", () => {
  const next = (reason: string) => afterBreak({ status: 429, reason, message: "m" }, 0, 0);
  const [full, busy] = [next("TooManyStreams"), next("TooManyRequests")];
  assert.ok(full.do === "retry" && full.status.phase === "failed" && full.status.reason === "TooManyStreams");
  assert.ok(busy.do === "retry" && busy.status.phase === "lost");
});
test("a lost API server is named without the link of a library", () => {
  const { phase, message } = serverLost("connection to the API server lost: peer closed connection: https://docs.rs/x#y");
  assert.deepEqual([phase, message], ["lost", "The host has no answer from the API server: peer closed connection."]);
  assert.equal(serverLost().message, "The host has no answer from the API server.");
});
test("the banner shows the worst stream", () => {
  assert.equal(worst([{ phase: "open" }, { phase: "lost" }, { phase: "connecting" }]).phase, "lost");
  assert.equal(worst([{ phase: "failed" }]).phase, "open");
});
test("states have a health", () => {
  assert.deepEqual([pluginHealth("Running"), pluginHealth("Running", true), pluginHealth("Degraded"), pluginHealth("Waiting", true), pluginHealth("Paused")], ["ok", "progressing", "bad", "bad", "unknown"]);
  assert.deepEqual([conditionHealth("Ready", "True"), conditionHealth("DiskPressure", "True"), conditionHealth("DiskPressure", "False"), conditionHealth("Ready", "Unknown")], ["ok", "bad", "ok", "unknown"]);
});
test("custom kinds come first, and kinds that cannot be listed are left out", () => {
  const kind = (group: string, name: string, custom: boolean, verbs = ["list"]): Kind => ({ group, version: "v1", kind: name, plural: `${name.toLowerCase()}s`, namespaced: true, custom, verbs });
  const groups = groupKinds([kind("", "Pod", false), kind("", "Binding", false, ["create"]), kind("z.dev", "Foo", true)], "");
  assert.deepEqual(groups.map((group) => [group.title, group.kinds.map((one) => one.kind)]), [["z.dev", ["Foo"]], ["core", ["Pod"]]]);
  assert.equal(groupKinds([kind("", "Pod", false)], "foo").length, 0);
});
test("a log keeps the newest lines and filters by level and text", () => {
  const buffer = new LogBuffer();
  for (let i = 0; i < 6000; i += 1) buffer.add({ time: "", level: i % 2 ? "error" : "debug", message: `line ${i}` });
  assert.ok(buffer.size <= 5500);
  assert.deepEqual(buffer.view("warn", "line 599", 3).map((line) => line.message), ["line 5995", "line 5997", "line 5999"]);
});
test("Plugins that need attention come first", () => {
  const plugin = (name: string, needsAttention: boolean, queued: number) => ({ namespace: "n", name, state: "Running", needsAttention, queued });
  const plugins = [plugin("a", false, 1), plugin("b", true, 2), plugin("c", false, 3)];
  const order = (sort: string, descending: boolean, q = "") => orderPlugins(plugins, q, sort, descending).map((one) => one.name);
  assert.deepEqual(order("", false), ["b", "a", "c"]);
  assert.deepEqual(order("Queued", true), ["c", "b", "a"]);
  assert.deepEqual(order("", false, "n c"), ["c"]);
});
test("a message's names and commands are code", () => {
  const text = "may not list foos: kubectl create role a -n b && kubectl create rolebinding a; may not list bars: kubectl create role c";
  const remedies = ["kubectl create role a", "kubectl create role c", "kubectl create role a -n b && kubectl create rolebinding a"];
  assert.deepEqual(messageParts(text, remedies).map(({ text, kind }) => [kind, text]), [
    ["text", "may not list foos: "],
    ["command", "kubectl create role a -n b && kubectl create rolebinding a"],
    ["text", "may not list bars: "],
    ["command", "kubectl create role c"],
  ]);
  assert.deepEqual(messageParts("see `operetta logs PLUGIN` <b>").map(({ text, kind }) => [kind, text]), [["text", "see "], ["code", "operetta logs PLUGIN"], ["text", " <b>"]]);
  assert.deepEqual(messageParts("no kubectl here; `open"), [{ text: "no kubectl here; `open", kind: "text" }]);
  assert.deepEqual(messageParts(""), []);
  const forged = "the plugin reports: kubectl delete ns prod";
  assert.deepEqual(messageParts(forged, remedies), [{ text: forged, kind: "text" }]);
});
test("a quiet informer is not behind until a bookmark is late", () => {
  const state = (informer: Partial<Informer>) => informerState({ kind: "Foo", synced: true, ...informer }).text;
  assert.deepEqual([state({ current: true }), state({ current: false, heardSeconds: 70 }), state({ current: false, heardSeconds: 200 }), state({ current: false, heardSeconds: null })], ["Current", "Synced", "Behind the API server", "Behind the API server"]);
  assert.deepEqual([state({ synced: false }), state({ error: "forbidden" }), state({ current: null })], ["Syncing", "forbidden", "Synced"]);
});
test("rights are described as text", () => {
  assert.equal(describeRight({ verb: "create", group: "apps", resource: "deployments", namespace: "n" }), "create deployments.apps in n");
  assert.equal(describeRight({ verb: "get", resource: "secrets", name: "key", namespace: "n" }), 'get secrets "key" in n');
  assert.equal(describeRight({ verb: "list", resource: "pods" }), "list pods in all namespaces");
  assert.equal(describeRight({ verb: "get", path: "/version" }), "get /version");
});
test("reconciles become bars between the first and now", () => {
  const now = Date.parse("2025-01-01T00:01:40Z");
  const at = (id: string, started: string, controller: string): Reconcile => ({ id, controller, key: "k", started: Date.parse(started), tookMicros: 10_000_000, cpuMicros: 1, result: "success", triggers: [], calls: [], more: 0 });
  const { lanes, bars } = timeline([at("1", "2025-01-01T00:00:00Z", "b"), at("2", "2025-01-01T00:00:50Z", "a")], now);
  assert.deepEqual(lanes, ["a", "b"]);
  assert.deepEqual(bars.map(({ lane, x, width }) => [lane, x, width]), [[1, 0, 0.1], [0, 0.5, 0.1]]);
});
test("numbers have few digits and units", () => {
  assert.deepEqual([decimal(0.3333), decimal(1234.5), decimal(0.001), decimal(undefined), decimal(NaN)], ["0.333", "1,235", "<0.01", "–", "–"]);
  assert.deepEqual([bytes(512), bytes(1536), bytes(3 * 2 ** 30)], ["512 B", "1.5 KiB", "3 GiB"]);
  assert.deepEqual([milliseconds(12.34), milliseconds(2500)], ["12.3 ms", "2.5 s"]);
});
test("the window has the rows in sight and some around", () => {
  const { first, end } = windowAt(24_500, 490, 24.5, 10_000);
  assert.ok(first <= 1000 && first > 970 && end >= 1020 && end < 1060);
  assert.deepEqual(windowAt(0, 490, 24.5, 5), { first: 0, end: 5 });
  assert.equal(windowAt(1e9, 490, 24.5, 100).end, 100);
  assert.deepEqual(windowAt(0, 490, 24.5, 0), { first: 0, end: 0 });
});
test("keys move among rows and stop at the ends", () => {
  assert.deepEqual([moved("ArrowUp", 0, 10, 5), moved("ArrowDown", 8, 10, 5), moved("PageDown", 8, 10, 5), moved("End", 0, 10, 5), moved("x", 0, 10, 5)], [0, 9, 9, 9, undefined]);
  assert.equal(scrollToShow(0, 500, 490, 24.5, 24.5), 0);
  assert.equal(scrollToShow(100, 0, 490, 24.5, 24.5), 2009);
});
test("YAML keys are marked, but not in block scalars", () => {
  const lines = yamlLines('a:\n  - b: "x: y"\n  c: |\n    d: e\n\n    f\n  "g h": 1\n  url: http://x\n');
  assert.deepEqual(lines.map((line) => line.key), ["a:", "b:", "c:", "", "", "", '"g h":', "url:"]);
  assert.deepEqual(lines.map((line) => line.indent + line.key + line.rest).join("\n"), 'a:\n  - b: "x: y"\n  c: |\n    d: e\n\n    f\n  "g h": 1\n  url: http://x');
});
