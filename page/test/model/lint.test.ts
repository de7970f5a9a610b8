import { test } from "node:test";
import assert from "node:assert/strict";
// @ts-expect-error: the rules are a script without types
import { findings } from "../../lint_rules.mjs";

const bad = [
  "element.innerHTML = name;", "<p dangerouslySetInnerHTML={{ __html: name }} />", 'element.insertAdjacentHTML("beforeend", name);',
  'element.setAttribute("style", text);', '<p style="color: red">', "new DOMParser()", "eval(text)", 'fetch("https://example.dev")', '<a href="javascript:run()">',
];
for (const line of bad) {
  test(`the lint fails on ${line}`, () => assert.equal(findings("x.tsx", line).length, 1));
}
test("the lint passes properties of style, comments and text", () => {
  assert.deepEqual(findings("x.tsx", "// no innerHTML here\n<td style={{ width: `${width}px` }}>{name}</td>\n"), []);
});
test("the lint fails on a long file", () => assert.equal(findings("x.tsx", "\n".repeat(500)).length, 1));
