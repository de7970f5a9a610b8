/** Tests of the helper of `operetta dev`: the bundles and the interpreter that it answers with. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";

const sdk = process.cwd();
const root = mkdtempSync(path.join(tmpdir(), "operetta-develop-"));
after(() => rmSync(root, { recursive: true }));

interface Answer {
  request: string;
  interpreter?: string;
  source?: string;
  error?: string;
}

test("helper answers each request with the source of that time", async () => {
  const dir = path.join(root, "project");
  mkdirSync(path.join(dir, "src"), { recursive: true });
  mkdirSync(path.join(dir, "node_modules", "@operetta"), { recursive: true });
  mkdirSync(path.join(dir, "node_modules", "other"), { recursive: true });
  symlinkSync(sdk, path.join(dir, "node_modules", "@operetta", "sdk"));
  writeFileSync(path.join(dir, "node_modules", "other", "index.js"), 'export default "of the package";');
  writeFileSync(path.join(dir, "package.json"), JSON.stringify({ name: "p", type: "module" }));
  const plugin = path.join(dir, "src", "plugin.ts");
  const save = (text: string) => writeFileSync(plugin, `import { definePlugin } from "@operetta/sdk";\n${text}`);
  save('import other from "other";\nexport default other as string;\n');

  const program = path.join(sdk, "bin", "operetta-js.mjs");
  const interpreters = path.join(root, "interpreters");
  const helper = spawn(process.execPath, [program, "develop", dir, "--interpreters", interpreters], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  after(() => helper.kill());
  const lines = createInterface({ input: helper.stdout })[Symbol.asyncIterator]();
  const ask = async (request: string): Promise<Answer> => {
    helper.stdin.write(`${request}\n`);
    return JSON.parse((await lines.next()).value as string) as Answer;
  };

  const first = await ask("1");
  assert.equal(first.error, undefined);
  assert.equal(first.request, "1");
  assert.deepEqual(readdirSync(interpreters), [first.interpreter]);
  const { code, lines: table } = JSON.parse(first.source ?? "") as { code: string; lines: { files: string[] } };
  assert.match(code, /of the package/, "other packages are in the bundle");
  assert.ok(code.length < 5_000, `the SDK is not: ${code.length} characters`);
  assert.ok(table.files.includes("src/plugin.ts"), table.files.join());

  save("export const x = 1 +;\n");
  const { error } = await ask("2");
  assert.match(error ?? "", /Unexpected ";"[\s\S]*src\/plugin.ts:2:20:/);

  save('export default "another one";\n');
  const third = await ask("3");
  assert.equal(third.interpreter, first.interpreter);
  assert.match(third.source ?? "", /another one/);

  helper.stdin.end();
  assert.equal(await new Promise((resolve) => helper.on("exit", resolve)), 0);
});
