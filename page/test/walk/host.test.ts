// What happens on a host while a page is open, and what different users see. The host is that of scripts/page-host.sh.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { axe, keepSecret, open, OUT, ready, session, setUp, signIn, type Setup } from "./browser.ts";
import { hostOf, type Host } from "./host.ts";

const FOOS = "/page/kinds/samplecontroller.k8s.io/v1alpha1/foos";
const FOO = "/page/objects/samplecontroller.k8s.io/v1alpha1/foos/team-a";
let setup: Setup;

before(async () => {
  setup = await setUp();
});
after(() => setup.browser.close());

/** Declares a test that disturbs the host. */
function onHost(name: string, run: (host: Host) => Promise<void>): void {
  test(name, { timeout: 120_000 }, async (t) => {
    const host = hostOf();
    if (!host) return t.skip("needs the host of scripts/page-host.sh");
    try {
      await run(host);
    } finally {
      for (const context of setup.browser.contexts()) await context.close();
    }
  });
}

const CRD = {
  apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata: { name: "widgets.walk.example.dev" },
  spec: {
    group: "walk.example.dev", scope: "Namespaced", names: { kind: "Widget", plural: "widgets", singular: "widget" },
    versions: [{
      name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      additionalPrinterColumns: [{ name: "Colour", type: "string", jsonPath: ".spec.colour" }],
    }],
  },
};
const widget = (name: string, colour: string) => ({ apiVersion: "walk.example.dev/v1", kind: "Widget", metadata: { name, namespace: "team-a" }, spec: { colour } });

onHost("a new kind and its objects appear without a restart and without a reload", async (host) => {
  host.kubectl("delete --ignore-not-found crd widgets.walk.example.dev");
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, "/page/kinds");
  await ready(page);
  assert.equal(await page.getByRole("link", { name: "Widget" }).count(), 0);
  host.apply(CRD);
  await page.getByRole("link", { name: "Widget" }).click();
  await page.getByText("There is no Widget.").waitFor();
  host.apply(widget("first", "red"), widget("second", "green"));
  await page.getByRole("row", { name: /first.*red/ }).waitFor();
  await page.getByText("2 objects").waitFor();
  host.apply(widget("first", "blue"));
  await page.getByRole("row", { name: /first.*blue/ }).waitFor();
  host.kubectl("delete -n team-a widget second");
  await page.getByText("1 object", { exact: true }).waitFor();
  await page.screenshot({ path: `${OUT}/new-kind-light-1280.png` });
  host.kubectl("delete crd widgets.walk.example.dev");
  await page.getByRole("navigation", { name: "Kinds" }).getByRole("link", { name: "Widget" }).waitFor({ state: "detached", timeout: 60_000 });
  check();
});

onHost("the status of applications is live, with the causes of a change", async (host) => {
  const context = await session(setup);
  const { page, check } = await open(context, setup.url, FOOS);
  await ready(page);
  for (const replicas of [3, 2]) {
    host.kubectl(`patch foo -n team-a example-foo --type merge -p {"spec":{"replicas":${replicas}}}`);
    await page.getByRole("row", { name: new RegExp(`^example-foo.*Healthy.*example-foo ${replicas} ${replicas}`) }).waitFor();
  }
  await page.getByRole("link", { name: "example-foo", exact: true }).click();
  const causes = page.getByRole("region", { name: "Changes and their causes" });
  await causes.getByText("changed by Plugin team-a/sample-controller, controller foo").first().waitFor();
  await causes.getByRole("link", { name: "Deployment team-a/example-foo" }).first().click();
  await page.waitForURL(/\/page\/objects\/apps\/v1\/deployments\/team-a\/example-foo$/);
  await page.getByRole("region", { name: "Changes and their causes" }).getByRole("link", { name: "team-a/sample-controller" }).first().click();
  await page.getByRole("heading", { name: "team-a/sample-controller", level: 1 }).waitFor();
  const row = page.getByRole("table", { name: "Recent reconciles" }).getByRole("row", { name: /update Deployment team-a\/example-foo \.spec\.replicas/ });
  await row.first().waitFor();
  check();
});

onHost("what objects say stays text", async (host) => {
  const html = `<img src=x onerror="window.hostile=1">`;
  const uid = host.kubectl("get foo -n team-a collides -o jsonpath={.metadata.uid}");
  const time = new Date().toISOString();
  host.apply({
    apiVersion: "v1", kind: "Event", metadata: { name: "hostile", namespace: "team-a" }, reason: "Hostile", message: html, type: "Warning", source: { component: html }, count: 1, firstTimestamp: time, lastTimestamp: time,
    involvedObject: { apiVersion: "samplecontroller.k8s.io/v1alpha1", kind: "Foo", namespace: "team-a", name: "collides", uid },
  });
  for (const javaScript of [true, false]) {
    const context = await session(setup, { javaScript });
    const { page, check } = await open(context, setup.url, `${FOO}/collides`);
    await page.getByText(html).first().waitFor();
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.evaluate(() => "hostile" in globalThis), false);
    check();
    await context.close();
  }
});

onHost("a tenant sees the own namespace, and which rights are missing for the rest", async (host) => {
  const context = await session(setup, { token: host.read("tenant-token") });
  const { page, check } = await open(context, setup.url, "/page/plugins");
  await page.getByText(/2 plugins · 1 needs attention · 4 hidden/).waitFor();
  const refused = async (path: string, text: RegExp, name: string) => {
    await page.goto(setup.url + path);
    await ready(page);
    await page.getByText(text).first().waitFor();
    await page.screenshot({ path: `${OUT}/tenant-${name}-light-1280.png` });
    await axe(page, `${path} of a tenant`);
  };
  await refused("/page/kinds/core/v1/nodes", /cannot list resource "nodes"/, "nodes");
  await refused("/page/informers", /\/informers/, "informers");
  await refused("/page/plugins/team-b/cloud-manager", /EndpointForbidden|cannot get/, "plugin");
  await refused(`${FOO}/example-foo`, /Changes and their causes/, "object");
  await refused("/page/tenants", /1 namespace/, "tenants");
  check();
});

onHost("a link without a session leads to the sign-in, and from there to the same view", async () => {
  const context = await session(setup, { token: "" });
  const { page } = await open(context, setup.url, `${FOOS}?q=example&sort=-Age`);
  await page.waitForURL(/\/page\/sign-in\?next=/);
  await axe(page, "the sign-in");
  await page.screenshot({ path: `${OUT}/sign-in-light-1280.png` });
  await page.getByLabel("Token").fill("no token");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await page.screenshot({ path: `${OUT}/sign-in-refused-light-1280.png` });
  await page.getByLabel("Token").fill(setup.token);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${setup.url}${FOOS}?q=example&sort=-Age`);
  await page.getByText("1 of 3 objects").waitFor();
  assert.equal(await page.locator("[aria-sort=descending]").textContent().then((text) => text?.replace(/\W/g, "")), "Age");
});

onHost("a session that ends leads to the sign-in", async (host) => {
  const name = `leaving-${Date.now()}`;
  const context = await session(setup, { token: host.user(name) });
  const { page } = await open(context, setup.url, `${FOOS}?namespace=team-a`);
  await page.getByRole("row", { name: /example-foo/ }).waitFor();
  host.kubectl(`delete serviceaccount -n team-a ${name}`);
  await page.waitForURL(/\/page\/sign-in\?next=/, { timeout: 60_000 });
});

onHost("who signs out needs the token again, in every tab", async () => {
  const context = await session(setup, { token: "" });
  const secret = await signIn(context, setup.url, setup.token);
  const { page } = await open(context, setup.url, "/page/sign-in");
  await page.evaluate(keepSecret, secret);
  await page.goto(`${setup.url}${FOOS}`);
  await page.getByRole("row", { name: /example-foo/ }).waitFor();
  const me = () => context.request.get(`${setup.url}/page/api/me`, { headers: { "x-operetta-session": secret } });
  assert.equal((await me()).status(), 200);
  const cookies = await context.cookies();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/page\/sign-in/);
  assert.deepEqual(await context.cookies(), []);
  // Who has kept both has nothing.
  await context.addCookies(cookies);
  assert.equal((await me()).status(), 401);
});

onHost("ten pages of a user are live, the next one says why it is not, and gets its turn", async (host) => {
  const token = host.user(`many-${Date.now()}`);
  const openPage = async () => {
    // Each in a context of its own: a browser has only six connections to a host.
    const context = await session(setup, { token });
    return { context, ...(await open(context, setup.url, "/page/plugins")) };
  };
  const pages = [];
  for (let i = 0; i < 10; i += 1) pages.push(await openPage());
  for (const { page } of pages) await page.getByText(/^2 plugins/).waitFor();
  const { page } = await openPage();
  await page.getByText(/TooManyStreams/).waitFor();
  await page.screenshot({ path: `${OUT}/too-many-streams-light-1280.png` });
  await pages[0]?.context.close();
  await page.getByText(/^2 plugins/).waitFor({ timeout: 40_000 });
});

onHost("ages follow the host's clock, not the browser's", async (host) => {
  const context = await session(setup);
  const page = await context.newPage();
  await page.clock.install({ time: Date.now() + 10 * 24 * 3_600_000 });
  const created = Date.parse(host.kubectl("get foo -n team-a example-foo -o jsonpath={.metadata.creationTimestamp}"));
  await page.goto(`${setup.url}${FOO}/example-foo`);
  // The browser's clock counts until the host's is known, a moment after the load.
  const minutes = Math.floor((Date.now() - created) / 60_000);
  await page.getByText(minutes < 2 ? /created\s+\d+s|created\s+2m/ : new RegExp(`created\\s+(${minutes}|${minutes + 1})m`)).waitFor();
});

onHost("without JavaScript every page is complete tables, and the filter is in the address", async () => {
  const context = await session(setup, { javaScript: false });
  const rows: [string, RegExp][] = [
    ["/page/plugins", /team-c\/sample-controller/], ["/page/plugins/team-a/sample-controller", /team-a\/collides/], ["/page/kinds", /CloudManager/],
    [`${FOOS}?q=example`, /example-foo/], [`${FOO}/example-foo`, /Synced/], ["/page/tenants", /team-b/], ["/page/informers", /Deployment\.apps/],
  ];
  for (const [path, row] of rows) {
    const page = await context.newPage();
    await page.goto(setup.url + path);
    await page.getByRole("row", { name: row }).or(page.getByRole("link", { name: row })).first().waitFor();
    assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, path);
    assert.equal(await page.locator("table").count() > 0, true, path);
    if (path.includes("?q=")) assert.equal(await page.getByRole("row", { name: /collides/ }).count(), 0);
    await page.screenshot({ path: `${OUT}/plain-${path.split("/").at(-1)?.replace(/\W/g, "-")}.png`, fullPage: true });
    await page.close();
  }
  // axe itself needs JavaScript: here only the page's script is missing.
  const blocked = await session(setup, { bearer: true });
  await blocked.route("**/page/assets/app-*.js", (route) => route.abort());
  for (const [path] of rows) {
    const { page } = await open(blocked, setup.url, path);
    await page.waitForLoadState();
    await axe(page, `${path} without the script`);
    await page.close();
  }
});
