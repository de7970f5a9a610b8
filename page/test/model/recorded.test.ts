// What the host's recorder says, in words. The answers are those of a host (test/server/recorded.json).

import { test } from "node:test";
import assert from "node:assert/strict";
import { describeCause, describeManagers, describeReads, describeTriggers, nthRetry, objectName, pluralsOf, shortDigest, timestamp } from "../../src/model/causes.ts";
import { describeCall, outcome, outcomeHealth, readsOf, writesOf } from "../../src/model/reconciles.ts";
import type { Kind, Reconcile, Step } from "../../src/api/types.ts";
import recorded from "../server/recorded.json";

const reconciles = recorded.reconciles as Reconcile[];
const changes = recorded.changes as Step[];

test("a reconcile is described by its triggers, reads, writes and outcome", () => {
  const wrote = reconciles.find((reconcile) => reconcile.calls.some((call) => call.paths));
  assert.ok(wrote);
  assert.match(describeTriggers(wrote)[0] ?? "", /^(Foo|Deployment) team-a\/example-foo@\d+ modified( \(\d events\))?$/);
  assert.match(writesOf(wrote).map(describeCall).join("\n"), /^(update|update\/status) (Foo|Deployment) team-a\/example-foo \./m);
  assert.equal(readsOf(wrote) + writesOf(wrote).length, wrote.calls.length);
  assert.deepEqual([outcome(wrote), outcomeHealth(wrote)], ["success", "ok"]);
  const failed = reconciles.find((reconcile) => reconcile.key === "team-a/collides");
  assert.ok(failed);
  assert.deepEqual([outcome(failed), outcomeHealth(failed)], ["error (ReconcileFailing)", "bad"]);
  assert.deepEqual(describeTriggers(failed), ["start of the controller, or new code or configuration"]);
});
test("a reconcile without triggers names the one before it, and one with a delay says it", () => {
  const [reconcile] = reconciles;
  assert.ok(reconcile);
  assert.match(describeTriggers({ ...reconcile, triggers: [] }).join(), /reconcile before it/);
  const later = { ...reconcile, result: "requeue_after", requeueAfterMilliseconds: 1500 };
  assert.deepEqual([outcome(later), outcomeHealth(later)], ["requeue after 1.5 s", "ok"]);
  assert.equal(outcomeHealth({ ...reconcile, result: "aborted" }), "unknown");
});
test("events of the same object are one trigger, with the newest version", () => {
  const many = reconciles.find((reconcile) => reconcile.triggers.length === 6);
  assert.ok(many);
  assert.deepEqual(describeTriggers(many), ["Deployment team-a/example-foo@699 modified (5 events)", "Foo team-a/example-foo@697 modified"]);
});
test("a retry is described by its number, and by the event that began it after that", () => {
  const [reconcile] = reconciles;
  assert.ok(reconcile);
  const triggers = [{ cause: "modified", object: "Foo n/a", resourceVersion: "7" }];
  assert.deepEqual(describeTriggers({ ...reconcile, triggers, retries: 15 }), ["the 15th retry", "since Foo n/a@7 modified"]);
  assert.deepEqual(describeTriggers({ ...reconcile, triggers, retries: 0 }), ["Foo n/a@7 modified"]);
  assert.deepEqual(describeTriggers({ ...reconcile, triggers: [], retries: 1 }), ["the 1st retry"]);
  assert.deepEqual([2, 3, 4, 11, 22, 113].map(nthRetry), ["the 2nd retry", "the 3rd retry", "the 4th retry", "the 11th retry", "the 22nd retry", "the 113th retry"]);
});
test("a start with many objects is one trigger", () => {
  const [reconcile] = reconciles;
  assert.ok(reconcile);
  const triggers = ["a", "b"].map((name) => ({ cause: "initial", object: `Foo n/${name}` }));
  assert.equal(describeTriggers({ ...reconcile, triggers }).length, 1);
});
test("a write that failed or was not sent says so", () => {
  assert.equal(describeCall({ verb: "update", object: "Foo n/a", result: "Conflict" }), "update Foo n/a: Conflict");
  assert.equal(describeCall({ verb: "update", object: "Foo n/a", paths: [], result: "unchanged" }), "update Foo n/a: unchanged");
});
test("a change names its writer, and its causes as far as they are recorded", () => {
  const change = changes.find((step) => step.because);
  assert.ok(change && typeof change.by === "object" && "plugin" in change.by);
  assert.equal(objectName(change.object), "Deployment team-a/example-foo");
  assert.match(describeReads(change.by.plugin.reads), /^get Foo team-a\/example-foo@\d+, get Deployment team-a\/example-foo@\d+$/);
  assert.match(shortDigest(change.by.plugin.digest), /^[0-9a-f]{12}$/);
  assert.ok(change.because?.some((cause) => typeof cause === "object" && "change" in cause));
  assert.match(timestamp(change.at), /^\d{4}-\d\d-\d\dT/);
  const object = { apiVersion: "v1", kind: "Pod", name: "p" };
  assert.equal(describeCause("hidden").before, "an object that you may not get");
  assert.equal(describeCause({ other: { text: "a resync" } }).before, "a resync");
  assert.equal(describeCause({ seen: { object, resourceVersion: "7" } }).after, "changed (resourceVersion 7), explained above");
  assert.equal(describeCause({ unrecorded: { object, resourceVersion: "7" } }).after, "changed (resourceVersion 7), which is not recorded");
  assert.equal(describeManagers(["kubectl", "helm"]), "field manager kubectl or helm");
  assert.equal(describeManagers([]), "an unknown writer outside of this host");
});
test("the plural of an object is found by its group, version and kind", () => {
  const kind = (group: string, plural: string): Kind => ({ group, version: "v1", kind: "Foo", plural, namespaced: true, custom: true });
  const plurals = pluralsOf([kind("", "foos"), kind("a.dev", "others")]);
  assert.deepEqual(["v1", "a.dev/v1", "b.dev/v1"].map((apiVersion) => plurals({ apiVersion, kind: "Foo" })), ["foos", "others", undefined]);
});
