// Restarts of the host and of the API server while pages are open. After the walk: a restarted host has recorded nothing yet.

import { after, before, test } from "node:test";
import { open, OUT, ready, session, setUp, type Setup } from "./browser.ts";
import { hostOf, type Host } from "./host.ts";

const FOOS = "/page/kinds/samplecontroller.k8s.io/v1alpha1/foos";
let setup: Setup;

before(async () => {
  setup = await setUp();
});
after(() => setup.browser.close());

for (const [what, kill, said] of [
  ["host", (host: Host) => host.killHost(), /Connection lost/],
  ["API server", (host: Host) => host.killApiServer(), /The host has no answer from the API server|The host does not answer/],
] as const) {
  test(`a restart of the ${what} is said, the rows stay, and what changed since is shown`, { timeout: 180_000 }, async (t) => {
    const host = hostOf();
    if (!host) return t.skip("needs the host of scripts/page-host.sh");
    const context = await session(setup);
    const { page } = await open(context, setup.url, FOOS);
    await ready(page);
    const row = page.getByRole("row", { name: /^example-foo/ });
    await row.waitFor();
    const plugins = (await open(context, setup.url, "/page/plugins")).page;
    await ready(plugins);
    kill(host);
    await page.getByText(said).first().waitFor({ timeout: 30_000 });
    await row.waitFor();
    await page.screenshot({ path: `${OUT}/lost-${what.replace(" ", "-")}-light-1280.png` });
    await page.getByText(said).first().waitFor({ state: "detached", timeout: 120_000 });
    for (let tries = 60; ; tries -= 1) {
      try {
        host.kubectl("get --raw /readyz");
        break;
      } catch (error) {
        if (tries === 0) throw error;
        await page.waitForTimeout(1000);
      }
    }
    const replicas = what === "host" ? 4 : 5;
    host.kubectl(`patch foo -n team-a example-foo --type merge -p {"spec":{"replicas":${replicas}}}`);
    await page.getByRole("row", { name: new RegExp(`^example-foo.*example-foo ${replicas} ${replicas}`) }).waitFor({ timeout: 60_000 });
    await plugins.getByText(/^6 plugins/).waitFor({ timeout: 60_000 });
    await context.close();
  });
}
