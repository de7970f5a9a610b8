// What the page costs on a host, in measures.json: the first load, the time until a change is shown, the host's processor.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { mainThreadTime, open, OUT, ready, session, setUp, type Setup } from "./browser.ts";
import { hostOf, type Host } from "./host.ts";

const FOOS = "/page/kinds/samplecontroller.k8s.io/v1alpha1/foos";
const FOO = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/team-a/foos/example-foo";
/** A Foo that no plugin reconciles. */
const QUIET = FOO.replace("team-a", "team-c").replace("example-foo", "without-rights");
let setup: Setup;
const measures: Record<string, unknown> = {};

before(async () => {
  setup = await setUp();
});
after(async () => {
  writeFileSync(`${OUT}/measures.json`, `${JSON.stringify(measures, null, 2)}\n`);
  await setup.browser.close();
});

test("the first load takes at most 300 ms, and nothing shifts", async () => {
  const context = await session(setup);
  const times: number[] = [];
  for (let run = 0; run < 10; run += 1) {
    const page = await context.newPage();
    await page.addInitScript(() => {
      const measured = { shift: 0, shown: 0 };
      (globalThis as unknown as { measured: typeof measured }).measured = measured;
      new PerformanceObserver((list) => list.getEntries().forEach((entry) => (measured.shift += (entry as unknown as { value: number }).value))).observe({ type: "layout-shift", buffered: true });
      const look = () => {
        if (document.querySelector(".virtual tbody tr")) measured.shown = performance.now();
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
    await page.goto(`${setup.url}/page/plugins`);
    await ready(page);
    await page.waitForTimeout(200);
    const { shift, shown } = await page.evaluate(() => (globalThis as unknown as { measured: { shift: number; shown: number } }).measured);
    assert.ok(shift < 0.01, `the layout shifts by ${shift}`);
    times.push(Math.round(shown));
    await page.close();
  }
  times.sort((a, b) => a - b);
  measures["first load until the rows are shown, ms"] = times;
  measures["first load, compressed bytes"] = await transferred(setup);
  const page = await context.newPage();
  await page.addInitScript(() => {
    const measured = { on: true };
    (globalThis as unknown as { measured: typeof measured }).measured = measured;
    const frame = () => measured.on && requestAnimationFrame(frame);
    requestAnimationFrame(frame);
  });
  const cpu = await mainThreadTime(page, async () => {
    await page.goto(`${setup.url}/page/plugins`);
    await page.locator(".virtual tbody tr").first().waitFor();
  });
  measures["first load, processor's time of the main thread, ms"] = cpu;
  assert.ok(cpu <= 300, `${cpu} ms of the processor`);
  // Other programs delay the page on a busy machine; there only the processor's time is judged.
  if ((loadavg()[0] ?? 0) < availableParallelism()) assert.ok((times[0] ?? Infinity) <= 300, `the fastest of ${times.join(", ")} ms`);
  await context.close();
});

/** Returns the bytes that a first load without a cache transfers: document, script, style and the first state. */
async function transferred(setup: Setup): Promise<number> {
  const context = await session(setup);
  const page = await context.newPage();
  const client = await context.newCDPSession(page);
  let bytes = 0;
  await client.send("Network.enable");
  client.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  await page.goto(`${setup.url}/page/plugins`);
  await ready(page);
  await context.close();
  return bytes;
}

test("a change at the API server is shown soon", { timeout: 120_000 }, async (t) => {
  const host = hostOf();
  if (!host) return t.skip("needs the host of scripts/page-host.sh");
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, FOOS);
  await ready(page);
  const times: number[] = [];
  for (let turn = 0; turn < 20; turn += 1) {
    const marker = `turn-${turn}`;
    // Measured in the page, whose clock is this machine's, from before the request to the frame that shows it.
    const shown = page.evaluate((text) => new Promise<number>((resolve) => {
      const look = () => ([...document.querySelectorAll(".virtual td")].some((cell) => cell.textContent === text) ? resolve(Date.now()) : requestAnimationFrame(look));
      look();
    }), marker);
    await page.waitForTimeout(200);
    const sent = Date.now();
    await host.patch(QUIET, { spec: { deploymentName: marker } });
    times.push((await shown) - sent);
  }
  times.sort((a, b) => a - b);
  measures["change at the API server until it is shown, ms"] = { p50: times[9], p90: times[17], all: times };
  assert.ok((times[9] ?? Infinity) <= 1000, `${times.join(", ")} ms`);
  check();
  await context.close();
});

/** Returns the host's processor's time while a Foo changes ten times a second for ten seconds, in percent of one processor. */
async function underLoad(host: Host): Promise<number> {
  const begun = Date.now();
  const before = host.cpu();
  for (let i = 0; i < 100; i += 1) {
    await host.patch(FOO, { metadata: { annotations: { turn: String(i) } } });
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, begun + (i + 1) * 100 - Date.now())));
  }
  return Math.round((1000 * (host.cpu() - before)) / (Date.now() - begun)) / 10;
}

test("five open pages cost the host little", { timeout: 180_000 }, async (t) => {
  const host = hostOf();
  if (!host) return t.skip("needs the host of scripts/page-host.sh");
  const without = await underLoad(host);
  for (const path of ["/page/plugins", "/page/kinds", FOOS, "/page/tenants", "/page/informers"]) {
    // A context for each: a browser has only six connections to a host.
    await ready((await open(await session(setup), setup.url, path)).page);
  }
  const withPages = await underLoad(host);
  measures["host's processor under ten changes a second, percent"] = { "without pages": without, "with five pages": withPages };
  for (const context of setup.browser.contexts()) await context.close();
});
