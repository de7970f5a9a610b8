import { test } from "node:test";
import assert from "node:assert/strict";
import { fitted, layout, NODE_HEIGHT } from "../../src/model/graph.ts";

const children = Array.from({ length: 5 }, (_, i) => `child ${i}`);

for (const width of [320, 1200]) {
  test(`no two nodes overlap, and all are inside, at ${width} pixels`, () => {
    const drawn = layout(["owner"], "self", children, width);
    assert.equal(drawn.nodes.length, 7);
    assert.equal(drawn.edges.length, 6);
    assert.ok(drawn.width <= width);
    for (const a of drawn.nodes) {
      assert.ok(a.x >= 0 && a.y >= 0 && a.x + drawn.nodeWidth <= drawn.width && a.y + NODE_HEIGHT <= drawn.height);
      for (const b of drawn.nodes) {
        if (a !== b) assert.ok(Math.abs(a.x - b.x) >= drawn.nodeWidth || Math.abs(a.y - b.y) >= NODE_HEIGHT);
      }
    }
  });
}
test("an object alone has no edges", () => {
  assert.deepEqual(layout([], "self", [], 1200).edges, []);
});
test("a long name keeps both of its ends", () => {
  assert.equal(fitted("deployment-5d4f-abcde", 11), "deplo…abcde");
  assert.equal(fitted("short", 11), "short");
});
