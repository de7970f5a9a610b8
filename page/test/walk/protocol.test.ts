// What a host cannot play cheaply: long lists, hostile names, and events at a time of the test's choice. On the protocol server.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { HOSTILE, row } from "../server/answers.ts";
import { keepSecret, measure, open, OUT, ready, session, setUpProtocol, signIn } from "./browser.ts";
import { TOKEN, type ProtocolServer } from "../server/server.ts";

const FOOS = "/page/kinds/samplecontroller.example.dev/v1alpha1/foos";
const FOOS_API = FOOS.replace("/page/", "/page/api/");
let setup: Awaited<ReturnType<typeof setUpProtocol>>;
const measures: Record<string, unknown> = {};

before(async () => {
  setup = await setUpProtocol();
});
after(async () => {
  writeFileSync(`${OUT}/measures-protocol.json`, `${JSON.stringify(measures, null, 2)}\n`);
  await setup.browser.close();
  await setup.server.stop();
});

/** Declares a test on the protocol server. */
function onProtocol(name: string, run: (server: ProtocolServer) => Promise<void>): void {
  test(name, { timeout: 120_000 }, async () => {
    try {
      await run(setup.server);
    } finally {
      for (const context of setup.browser.contexts()) await context.close();
    }
  });
}

onProtocol("a new tab gets the secret from another one, and the cookie alone leads to the sign-in", async () => {
  const context = await session(setup, { token: "" });
  const secret = await signIn(context, setup.url, TOKEN);
  const alone = await open(context, setup.url, FOOS);
  await alone.page.waitForURL(/\/page\/sign-in\?next=/);
  await alone.page.evaluate(keepSecret, secret);
  await alone.page.goto(setup.url + FOOS);
  await alone.page.getByRole("row", { name: /foo-0001/ }).waitFor();
  const other = await open(context, setup.url, FOOS);
  await other.page.getByRole("row", { name: /foo-0001/ }).waitFor();
  other.check();
});

onProtocol("a change is shown within 100 ms", async (server) => {
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, FOOS);
  await ready(page);
  await page.getByRole("row", { name: /foo-0001/ }).waitFor();
  const times: number[] = [];
  for (let turn = 1; turn <= 10; turn += 1) {
    const marker = `turn-${turn}`;
    // Measured in the page, whose clock is this machine's.
    const shown = page.evaluate((text) => new Promise<number>((resolve) => {
      const look = () => ([...document.querySelectorAll(".virtual td")].some((cell) => cell.textContent === text) ? resolve(Date.now()) : requestAnimationFrame(look));
      look();
    }), marker);
    await page.waitForTimeout(60);
    const changed = row(1);
    changed.cells[4] = marker;
    const sent = Date.now();
    server.send(FOOS_API, "rows", { rows: [changed] });
    times.push((await shown) - sent);
  }
  times.sort((a, b) => a - b);
  measures["change shown, ms"] = times;
  assert.ok((times[5] ?? Infinity) <= 100, `the median of ${times.join(", ")} ms`);
  check();
});

onProtocol("rows are added, deleted and counted as events come", async (server) => {
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, `${FOOS}?q=foo-90`);
  await page.getByText("None of 200 objects matches the filter.").waitFor();
  server.send(FOOS_API, "rows", { rows: [{ ...row(9000), health: "bad" }, row(9001)] });
  await page.getByText("2 of 202 objects").waitFor();
  await page.getByRole("button", { name: /^Unhealthy 1$/ }).click();
  await page.getByText("1 of 202 objects").waitFor();
  assert.match(page.url(), /has=health%3Abad/);
  server.send(FOOS_API, "deleted", { uids: ["uid-9000"] });
  await page.getByText("None of 201 objects matches the filter.").waitFor();
  await page.goBack();
  await page.getByText("1 of 201 objects").waitFor();
  check();
});

onProtocol("what objects and plugins say stays text", async () => {
  const context = await session(setup);
  for (const path of ["/page/plugins", "/page/plugins/team-b/image-mirror", FOOS, `/page/objects/samplecontroller.example.dev/v1alpha1/foos/default/${encodeURIComponent(HOSTILE)}`]) {
    const { page, check } = await open(context, setup.url, path);
    await ready(page);
    await page.getByText(HOSTILE).first().waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    assert.equal(await page.evaluate(() => "hostile" in globalThis), false);
    check();
    await page.close();
  }
});

onProtocol("10,000 rows scroll smoothly", async () => {
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, "/page/kinds/example.dev/v1/tens");
  await page.getByText("10,000 objects", { exact: true }).waitFor({ timeout: 30_000 });
  const idle = await measure(page, () => page.waitForTimeout(1000));
  const scrolled = await measure(page, () => page.evaluate(() => new Promise<void>((resolve) => {
    const table = document.querySelector(".virtual");
    let left = 120;
    const step = () => {
      table?.scrollBy(0, 240);
      left -= 1;
      if (left > 0) requestAnimationFrame(step);
      else resolve();
    };
    step();
  })));
  measures["frames without scrolling, ms"] = idle;
  measures["frames while 10,000 rows scroll, ms"] = scrolled;
  assert.equal(await page.getByRole("grid").getAttribute("aria-rowcount"), "10001");
  assert.ok(await page.locator(".virtual tbody tr[data-row]").count() < 120, "only the rows in sight are rendered");
  // A busy machine delays all frames; the processor's time is what the page costs.
  assert.ok(scrolled.frameP95 <= 34 || scrolled.cpuPerFrame <= 12, JSON.stringify({ idle, scrolled }));
  assert.ok(scrolled.longestCpu <= 50, JSON.stringify(scrolled));
  check();
});

onProtocol("100,000 rows load, filter and sort without a freeze of 200 ms", async () => {
  const context = await session(setup);
  const page = await context.newPage();
  await page.goto(`${setup.url}/page/kinds`);
  await ready(page);
  const begun = Date.now();
  const loading = await measure(page, async () => {
    await page.getByRole("link", { name: "Hundred", exact: true }).click();
    await page.getByText("100,000 objects", { exact: true }).waitFor({ timeout: 60_000 });
  });
  measures["100,000 rows loaded after, ms"] = Date.now() - begun;
  measures["frames while 100,000 rows load, ms"] = loading;
  const filtering = await measure(page, async () => {
    await page.getByLabel("Filter", { exact: true }).pressSequentially("foo-99");
    await page.getByText(/^[\d,]+ of 100,000 objects$/).waitFor();
  });
  measures["frames while 100,000 rows are filtered, ms"] = filtering;
  await page.getByLabel("Filter", { exact: true }).fill("");
  await page.getByText("100,000 objects", { exact: true }).waitFor();
  const sorting = await measure(page, async () => {
    await page.getByRole("button", { name: "Replicas" }).click();
    await page.locator("[aria-sort=ascending]").waitFor();
  });
  measures["frames while 100,000 rows are sorted, ms"] = sorting;
  for (const [name, measured] of Object.entries({ loading, filtering, sorting })) assert.ok(measured.longestCpu <= 200, `${name}: ${JSON.stringify(measured)}`);
});

onProtocol("leaving a page ends its streams", async (server) => {
  const context = await session(setup);
  const { page } = await open(context, setup.url, "/page/plugins/team-b/image-mirror");
  await ready(page);
  await page.getByText("40 lines").waitFor();
  assert.ok(server.streams >= 2);
  await page.getByRole("link", { name: "Tenants" }).click();
  await page.getByText("3 namespaces").waitFor();
  for (let i = 0; i < 50 && server.streams > 0; i += 1) await page.waitForTimeout(100);
  assert.equal(server.streams, 0);
});
