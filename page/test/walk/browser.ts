// What the walks share: the browser, the signed-in session, axe, screenshots and measures.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { ProtocolServer, TOKEN } from "../server/server.ts";

const require = createRequire(import.meta.url);
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** The folder of the screenshots and the measures. */
export const OUT = process.env["PAGE_OUT"] ?? "target/test-page";
/** The built page. */
const DIST = process.env["PAGE_DIST"] ?? "page/dist";

/** A browser and the host that it talks to. */
export interface Setup {
  browser: Browser;
  url: string;
  token: string;
  /** The protocol server; none if the walk runs on a host (PAGE_URL). */
  server: ProtocolServer | undefined;
}

/** Starts the browser, and the protocol server unless there is a host. */
export async function setUp(): Promise<Setup> {
  mkdirSync(OUT, { recursive: true });
  const executablePath = process.env["CHROMIUM"];
  assert.ok(executablePath, "CHROMIUM must name the browser; scripts/test-page.sh sets it");
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const url = process.env["PAGE_URL"];
  if (url) return { browser, url: url.replace(/\/(page\/?)?$/, ""), token: process.env["PAGE_TOKEN"] ?? "", server: undefined };
  const server = await new ProtocolServer(DIST).start();
  return { browser, url: server.url, token: TOKEN, server };
}

/** The look of a session. */
export interface Look {
  width?: number;
  height?: number;
  dark?: boolean;
}

/** Opens a signed-in session. */
export async function session(setup: Setup, look: Look = {}): Promise<BrowserContext> {
  const context = await setup.browser.newContext({
    viewport: { width: look.width ?? 1280, height: look.height ?? 800 },
    colorScheme: look.dark ? "dark" : "light",
    ignoreHTTPSErrors: true,
  });
  await context.addCookies([{ name: "operetta-token", value: setup.token, url: `${setup.url}/page/`, httpOnly: true, sameSite: "Strict" }]);
  return context;
}

/** Opens a page, and fails the test at the end (`check`) if the page logged an error. */
export async function open(context: BrowserContext, url: string, path: string): Promise<{ page: Page; check: () => void }> {
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|ERR_|has a MIME type/.test(message.text())) errors.push(message.text());
  });
  await page.goto(url + path, { waitUntil: "commit" });
  return { page, check: () => assert.deepEqual(errors, []) };
}

/** Waits until the page shows its content. */
export async function ready(page: Page): Promise<void> {
  await page.locator("h1").first().waitFor();
  await page.waitForFunction(() => !document.querySelector(".loading"));
  await page.waitForFunction(() => !document.querySelector(".with-side") || document.querySelector(".virtual, .empty, .refusal") !== null);
}

/** Fails if axe finds something serious or critical. */
export async function axe(page: Page, name: string): Promise<void> {
  // Over the protocol of the developer tools, which the page's Content-Security-Policy does not bind.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const run = (globalThis as unknown as { axe: { run: (options: unknown) => Promise<{ violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe.run;
    const { violations } = await run({ resultTypes: ["violations"] });
    return violations.map((violation) => ({ id: violation.id, impact: violation.impact, nodes: violation.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)}: ${node.failureSummary}`) }));
  });
  assert.deepEqual(found.filter((violation) => violation.impact === "serious" || violation.impact === "critical"), [], `axe on ${name}`);
}

/** Presses Tab until the focus is on an element of this selector; fails after many presses. */
export async function tabTo(page: Page, selector: string, most = 60): Promise<void> {
  for (let i = 0; i < most; i += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) return;
  }
  assert.fail(`Tab does not reach ${selector}`);
}

/** Measures the frames, and the long tasks, while something runs. */
export async function frames(page: Page, during: () => Promise<void>): Promise<{ count: number; p50: number; p95: number; worst: number; longest: number }> {
  await page.evaluate(() => {
    const measured = { times: [] as number[], tasks: [] as number[], on: true };
    (globalThis as unknown as { measured: typeof measured }).measured = measured;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => measured.tasks.push(entry.duration))).observe({ type: "longtask" });
    let last = performance.now();
    const frame = () => {
      const now = performance.now();
      measured.times.push(now - last);
      last = now;
      if (measured.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await during();
  return page.evaluate(() => {
    const { measured } = globalThis as unknown as { measured: { times: number[]; tasks: number[]; on: boolean } };
    measured.on = false;
    const times = measured.times.slice(1).sort((a, b) => a - b);
    const at = (part: number) => Math.round((times[Math.floor(part * (times.length - 1))] ?? 0) * 10) / 10;
    return { count: times.length, p50: at(0.5), p95: at(0.95), worst: at(1), longest: Math.round(Math.max(0, ...measured.tasks)) };
  });
}
