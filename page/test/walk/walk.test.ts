// The walk through all pages of a host: keyboard, screen-reader roles, axe, screenshots.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { axe, open, OUT, ready, session, setUp, tabTo, type Setup } from "./browser.ts";
import { places, type Place } from "./places.ts";

let setup: Setup;
let all: Place[];

before(async () => {
  setup = await setUp();
  const context = await session(setup);
  all = await places(setup, await context.newPage());
  await context.close();
});
after(() => setup.browser.close());

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

test("more contrast and forced colours are shown, and the theme switch is kept", async () => {
  const context = await session(setup);
  for (const { name, path } of all.filter((place) => ["plugins", "plugin", "kind", "object", "tenants"].includes(place.name))) {
    const { page, check } = await open(context, setup.url, path);
    await ready(page);
    for (const scheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: scheme, contrast: "more" });
      await page.screenshot({ path: `${OUT}/${name}-more-contrast-${scheme}.png` });
      await axe(page, `${name} with more contrast, ${scheme}`);
    }
    await page.emulateMedia({ colorScheme: "light", contrast: "no-preference", forcedColors: "active" });
    await page.screenshot({ path: `${OUT}/${name}-forced-colors.png` });
    check();
    await page.close();
  }
  const { page } = await open(context, setup.url, "/page/plugins");
  await ready(page);
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.getByLabel("Theme").selectOption("dark");
  assert.notEqual(await ground(), light);
  await page.reload();
  await ready(page);
  assert.notEqual(await ground(), light);
  await context.close();
});

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
  for (const [key, name] of [["t", "Tenants"], ["i", "Informers"], ["p", "Plugins"]] as const) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.getByRole("heading", { name, level: 1 }).waitFor();
    await ready(page);
    assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
    assert.equal(await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name }).getAttribute("aria-current"), "page");
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("dialog").count(), 0);
  check();
  await context.close();
});
