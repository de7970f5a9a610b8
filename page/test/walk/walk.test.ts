// The walk through all pages: keyboard, screen-reader roles, axe, screenshots. It runs on the protocol server, or with PAGE_URL and
// PAGE_TOKEN on a host.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { availableParallelism, loadavg } from "node:os";
import { axe, mainThreadTime, open, OUT, ready, session, setUp, tabTo, type Setup } from "./browser.ts";
import { places, type Place } from "./places.ts";

let setup: Setup;
let all: Place[];

before(async () => {
  setup = await setUp();
  const context = await session(setup);
  all = await places(setup, await context.newPage());
  await context.close();
});
after(async () => {
  await setup.browser.close();
  await setup.server?.stop();
});

for (const dark of [false, true]) {
  for (const [width, height] of [[360, 720], [1280, 800], [2560, 1300]] as const) {
    const look = `${dark ? "dark" : "light"}-${width}`;
    test(`shows all pages in ${look}, axe finds nothing serious, and nothing is wider than the window`, async () => {
      const context = await session(setup, { width, height, dark });
      for (const place of all) {
        const { page, check } = await open(context, setup.url, place.path);
        await ready(page);
        await page.screenshot({ path: `${OUT}/${place.name}-${look}.png`, fullPage: true });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${place.name} is ${wide} pixels wider than the window`);
        // Contrast and structure do not change between the two wide layouts.
        if (width !== 2560 && !(dark && width === 360)) await axe(page, `${place.name} in ${look}`);
        check();
        await page.close();
      }
      await context.close();
    });
  }
}

test("every page has landmarks, one main heading and a title of its own", async () => {
  const context = await session(setup);
  const titles = new Set<string>();
  for (const place of all) {
    const { page, check } = await open(context, setup.url, place.path);
    await ready(page);
    for (const role of ["banner", "main"] as const) assert.equal(await page.getByRole(role).count(), 1, `${role} of ${place.name}`);
    assert.equal(await page.getByRole("navigation", { name: "Sections" }).count(), 1);
    assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, `headings of ${place.name}`);
    const title = await page.title();
    assert.match(title, /· Operetta$/);
    titles.add(title);
    check();
    await page.close();
  }
  const same = all.filter((place) => place.path.includes("?")).length;
  assert.equal(titles.size, all.length - same);
  await context.close();
});

test("the keyboard alone reaches a plugin and an object", async () => {
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, "/page/plugins");
  await ready(page);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "app");
  await tabTo(page, ".virtual tbody tr");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/page\/plugins\/[^/]+\/[^/]+$/);
  await ready(page);
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1", "the new page's heading has the focus");
  await page.keyboard.press("g");
  await page.keyboard.press("k");
  await page.waitForURL(/\/page\/kinds$/);
  await ready(page);
  const kind = all.find((place) => place.name === "kind");
  if (kind) {
    await page.keyboard.press("/");
    await page.keyboard.type(kind.path.split("/").at(-1) ?? "");
    await tabTo(page, ".kind-list a");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/page\/kinds\/.+/);
    await ready(page);
    await tabTo(page, ".virtual tbody tr", 120);
    await page.keyboard.press("End");
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/page\/objects\//);
    await ready(page);
    await page.getByRole("heading", { name: "YAML" }).waitFor();
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("dialog").count(), 0);
  check();
  await context.close();
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
  console.log(`first load until the rows are shown: ${times.join(", ")} ms`);
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
  console.log(`processor's time of the main thread for it: ${cpu} ms`);
  assert.ok(cpu <= 300, `${cpu} ms of the processor`);
  // Other programs delay the page on a busy machine; there only the processor's time is judged.
  if ((loadavg()[0] ?? 0) < availableParallelism()) assert.ok((times[0] ?? Infinity) <= 300, `the fastest of ${times.join(", ")} ms`);
  await context.close();
});
