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
}

/** Starts the browser for a host (PAGE_URL, PAGE_TOKEN). */
export async function setUp(): Promise<Setup> {
  const url = process.env["PAGE_URL"];
  assert.ok(url, "PAGE_URL must name the host; scripts/test-page.sh sets it");
  return { browser: await launch(), url: url.replace(/\/(page\/?)?$/, ""), token: process.env["PAGE_TOKEN"] ?? "" };
}

/** Starts the browser and the protocol server. */
export async function setUpProtocol(): Promise<Setup & { server: ProtocolServer }> {
  const server = await new ProtocolServer(DIST).start();
  return { browser: await launch(), url: server.url, token: TOKEN, server };
}

async function launch(): Promise<Browser> {
  mkdirSync(OUT, { recursive: true });
  const executablePath = process.env["CHROMIUM"];
  assert.ok(executablePath, "CHROMIUM must name the browser; scripts/test-page.sh sets it");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** The look of a session. */
export interface Look {
  width?: number;
  height?: number;
  dark?: boolean;
  javaScript?: boolean;
  /** Each request brings the token in its header, as without JavaScript: the host answers with plain HTML. */
  bearer?: boolean;
  /** The token; without one, the setup's. Empty: not signed in. */
  token?: string;
}

/** Opens a signed-in session. */
export async function session(setup: Setup, look: Look = {}): Promise<BrowserContext> {
  const context = await setup.browser.newContext({
    viewport: { width: look.width ?? 1280, height: look.height ?? 800 },
    colorScheme: look.dark ? "dark" : "light",
    javaScriptEnabled: look.javaScript ?? true,
    ignoreHTTPSErrors: true,
  });
  const token = look.token ?? setup.token;
  if (!token) return context;
  if (look.bearer ?? look.javaScript === false) {
    await context.setExtraHTTPHeaders({ authorization: `Bearer ${token}` });
    return context;
  }
  await context.addInitScript(keepSecret, await signIn(context, setup.url, token));
  return context;
}

/** Keeps a session's secret in a tab, unless it is blank. */
export function keepSecret(secret: string): void {
  if (location.protocol.startsWith("http")) sessionStorage.setItem("operetta-session", secret);
}

/** Signs in as the form does: the context keeps the cookie. Returns the session's secret. */
export async function signIn(context: BrowserContext, url: string, token: string): Promise<string> {
  const response = await context.request.post(`${url}/page/sign-in`, { form: { token, next: "/page/plugins" }, headers: { origin: url } });
  const secret = /data-secret="([0-9a-f]{64})"/.exec(await response.text())?.[1];
  assert.ok(secret, `the sign-in answers ${response.status()}`);
  return secret;
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

/** The measures of a while: frames, and the tasks of the page's main thread, in milliseconds. */
export interface Measured {
  frames: number;
  /** Between frames, by the clock. A busy machine delays them. */
  frameP50: number;
  frameP95: number;
  /** The processor's time of the main thread for each frame, and of the longest task: what the page itself costs. */
  cpuPerFrame: number;
  longestCpu: number;
  /** The longest task, by the clock. */
  longest: number;
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

/** Collects the events of a trace. */
async function traced(page: Page, during: () => Promise<void>): Promise<TraceEvent[]> {
  const client = await page.context().newCDPSession(page);
  const events: TraceEvent[] = [];
  client.on("Tracing.dataCollected", ({ value }) => events.push(...(value as unknown as TraceEvent[])));
  await client.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] } });
  await during();
  await page.evaluate(() => ((globalThis as unknown as { measured: { on: boolean } }).measured.on = false));
  const complete = new Promise<void>((resolve) => client.once("Tracing.tracingComplete", () => resolve()));
  await client.send("Tracing.end");
  await complete;
  await client.detach();
  return events;
}

/** Measures while something runs. */
export async function measure(page: Page, during: () => Promise<void>): Promise<Measured> {
  await page.evaluate(() => {
    const measured = { times: [] as number[], on: true };
    (globalThis as unknown as { measured: typeof measured }).measured = measured;
    let last = performance.now();
    const frame = () => {
      const now = performance.now();
      measured.times.push(now - last);
      last = now;
      if (measured.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const events = await traced(page, during);
  const times = await page.evaluate(() => {
    const { measured } = globalThis as unknown as { measured: { times: number[] } };
    return measured.times.slice(1).sort((a, b) => a - b);
  });
  // The page's main thread is the one on which its scripts ran longest.
  const tasks = mainThreadTasks(events);
  const at = (part: number) => rounded(times[Math.floor(part * (times.length - 1))] ?? 0);
  const longest = (read: (task: TraceEvent) => number | undefined) => rounded(tasks.reduce((most, task) => Math.max(most, (read(task) ?? 0) / 1000), 0));
  const cpu = tasks.reduce((sum, task) => sum + (task.tdur ?? 0) / 1000, 0);
  return { frames: times.length, frameP50: at(0.5), frameP95: at(0.95), cpuPerFrame: rounded(cpu / Math.max(1, times.length)), longestCpu: longest((task) => task.tdur), longest: longest((task) => task.dur) };
}

/** Returns the processor's time of the page's main thread while something runs, in milliseconds. */
export async function mainThreadTime(page: Page, during: () => Promise<void>): Promise<number> {
  const tasks = mainThreadTasks(await traced(page, during));
  return rounded(tasks.reduce((sum, task) => sum + (task.tdur ?? 0) / 1000, 0));
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Returns the tasks of the renderer's main thread that ran the page's animation frames. */
function mainThreadTasks(events: TraceEvent[]): TraceEvent[] {
  const counts = new Map<string, number>();
  for (const event of events) if (event.name === "FireAnimationFrame") counts.set(`${event.pid}/${event.tid}`, (counts.get(`${event.pid}/${event.tid}`) ?? 0) + 1);
  const main = [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
  return events.filter((event) => `${event.pid}/${event.tid}` === main && event.name === "RunTask");
}
