import { test } from "node:test";
import assert from "node:assert/strict";
import { EVERYTHING } from "../../src/model/filter.ts";
import { AGE, LiveRows } from "../../src/model/live_rows.ts";
import type { Column, Row } from "../../src/api/types.ts";

const COLUMNS: Column[] = [{ name: "Name" }, { name: "Replicas", type: "integer" }, { name: "Last", type: "date" }];

function row(name: string, replicas: number | null = 1, more: Partial<Row> = {}): Row {
  return { uid: name, namespace: "default", name, cells: [name, replicas, "5m"], health: "ok", conditions: { Ready: "True" }, ...more };
}
function rowsOf(...rows: Row[]): LiveRows {
  const live = new LiveRows();
  live.columns(COLUMNS);
  live.upsert(rows);
  return live;
}
const names = (live: LiveRows, filter: Partial<typeof EVERYTHING> = {}) => live.view({ ...EVERYTHING, ...filter }).rows.map((held) => held.row.name);

test("rows are ordered by namespace and name", () => {
  assert.deepEqual(names(rowsOf(row("b"), row("a"), row("z", 1, { namespace: "a" }))), ["z", "a", "b"]);
});
test("a changed row replaces the old one", () => {
  const live = rowsOf(row("a", 1), row("b", 2));
  names(live);
  live.upsert([row("a", 7)]);
  const view = live.view(EVERYTHING);
  assert.deepEqual(view.rows.map((held) => held.row.cells[1]), [7, 2]);
  assert.equal(view.total, 2);
});
test("a row that is added and deleted before a view is not shown", () => {
  const live = rowsOf(row("a"));
  live.upsert([row("b")]);
  live.remove(["b"]);
  assert.deepEqual(names(live), ["a"]);
});
test("numbers are ordered as numbers, and rows without one come first", () => {
  assert.deepEqual(names(rowsOf(row("a", 10), row("b", 9), row("c", null)), { sort: "Replicas" }), ["c", "b", "a"]);
});
test("a descending order turns the rows around", () => {
  assert.deepEqual(names(rowsOf(row("a", 1), row("b", 2)), { sort: "Replicas", descending: true }), ["b", "a"]);
});
test("rows that come after sorting find their place", () => {
  const live = rowsOf(row("a", 1), row("c", 5));
  names(live, { sort: "Replicas" });
  live.upsert([row("b", 3)]);
  assert.deepEqual(names(live, { sort: "Replicas" }), ["a", "b", "c"]);
  assert.deepEqual(names(live), ["a", "b", "c"]);
});
test("Age orders by creation, the youngest first", () => {
  const live = rowsOf(row("old", 1, { created: "2024-01-01T00:00:00Z" }), row("young", 1, { created: "2025-01-01T00:00:00Z" }));
  assert.deepEqual(names(live, { sort: AGE }), ["young", "old"]);
});
test("durations are ordered by length", () => {
  const live = rowsOf(row("a", 1, { cells: ["a", 1, "10m"] }), row("b", 1, { cells: ["b", 1, "9s"] }));
  assert.deepEqual(names(live, { sort: "Last" }), ["b", "a"]);
});
test("the text filter reads all cells", () => {
  assert.deepEqual(names(rowsOf(row("a", 41), row("b", 2)), { q: "41" }), ["a"]);
});
test("facets of one condition are alternatives, those of several conditions add up", () => {
  const live = rowsOf(row("a"), row("b", 1, { health: "bad", conditions: { Ready: "False" } }), row("c", 1, { health: "bad" }));
  assert.deepEqual(names(live, { facets: ["health:bad"] }), ["b", "c"]);
  assert.deepEqual(names(live, { facets: ["health:bad", "health:ok"] }), ["a", "b", "c"]);
  assert.deepEqual(names(live, { facets: ["health:bad", "Ready=True"] }), ["c"]);
});
test("counts follow the text filter and not the facets", () => {
  const live = rowsOf(row("a"), row("ab", 1, { health: "bad" }), row("c"));
  const { counts, total } = live.view({ ...EVERYTHING, q: "a", facets: ["health:bad"] });
  // The namespace is `default`, which has an a: all rows match.
  assert.deepEqual([counts.get("health:ok"), counts.get("health:bad"), counts.get("Ready=True"), total], [2, 1, 3, 3]);
});
test("a list that starts over drops the rows that are not in it", () => {
  const live = rowsOf(row("a"), row("b"));
  live.synced();
  live.restart();
  live.upsert([row("b")]);
  assert.deepEqual(names(live), ["a", "b"]);
  live.synced();
  assert.deepEqual(names(live), ["b"]);
});
test("random changes give the rows of a plain sort", () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  const live = rowsOf();
  const model = new Map<string, Row>();
  for (let turn = 0; turn < 300; turn += 1) {
    const name = `r${random(40)}`;
    if (random(3) === 0) {
      live.remove([name]);
      model.delete(name);
    } else {
      const changed = row(name, random(5));
      live.upsert([changed]);
      model.set(name, changed);
    }
    const sort = random(10) === 0 ? "" : "Replicas";
    const wanted = [...model.values()].sort((a, b) => (sort && Number(a.cells[1]) - Number(b.cells[1])) || (a.name < b.name ? -1 : 1)).map((one) => one.name);
    assert.deepEqual(names(live, { sort }), wanted, `turn ${turn}`);
  }
});
test("an object whose reconcile fails is unhealthy until it no longer does, also when its row comes later", () => {
  const live = new LiveRows();
  live.columns(COLUMNS);
  live.failing(["default/a", "default/later"]);
  live.upsert([row("a", 1, { health: "unknown" }), row("b")]);
  const healths = () => live.view(EVERYTHING).rows.map((held) => held.row.health);
  assert.deepEqual(healths(), ["bad", "ok"]);
  assert.equal(live.view(EVERYTHING).counts.get("health:bad"), 1);
  live.upsert([row("later")]);
  assert.deepEqual(healths(), ["bad", "ok", "bad"]);
  live.failing(["default/b"]);
  assert.deepEqual(healths(), ["unknown", "bad", "ok"]);
  assert.equal(live.view(EVERYTHING).total, 3);
});
test("a row of an old list that begins to fail is still gone after the new list", () => {
  const live = rowsOf(row("a"), row("b"));
  live.restart();
  live.failing(["default/a"]);
  live.upsert([row("b")]);
  live.synced();
  assert.deepEqual(names(live), ["b"]);
});
