// The places of the walk. On a host of the user they are found by following links, as the objects there are not known before.

import type { Page } from "playwright-core";
import { ready, type Setup } from "./browser.ts";

/** A place with a name for its screenshots. */
export interface Place {
  name: string;
  path: string;
}

/** The places on the host of scripts/page-host.sh. */
const HOST: Place[] = [
  { name: "plugins", path: "/page/plugins" },
  { name: "plugin", path: "/page/plugins/team-a/sample-controller" },
  { name: "plugin-without-rights", path: "/page/plugins/team-c/sample-controller" },
  { name: "plugin-without-consent", path: "/page/plugins/team-c/pod-tracker" },
  { name: "kinds", path: "/page/kinds" },
  { name: "kind", path: "/page/kinds/samplecontroller.k8s.io/v1alpha1/foos" },
  { name: "kind-filtered", path: "/page/kinds/samplecontroller.k8s.io/v1alpha1/foos?q=foo&has=health%3Aok&sort=-Desired" },
  { name: "kind-pods", path: "/page/kinds/core/v1/pods" },
  { name: "kind-empty", path: "/page/kinds/batch/v1/jobs" },
  { name: "object", path: "/page/objects/samplecontroller.k8s.io/v1alpha1/foos/team-a/example-foo" },
  { name: "object-children", path: "/page/objects/cloudmanagercontroller.huayun.com/v1/cloudmanagers/team-b/example-cloud" },
  { name: "object-deployment", path: "/page/objects/apps/v1/deployments/team-a/example-foo" },
  { name: "object-secret", path: "/page/objects/core/v1/secrets/team-b/example-dbauth" },
  { name: "object-missing", path: "/page/objects/core/v1/pods/team-a/none" },
  { name: "tenants", path: "/page/tenants" },
  { name: "informers", path: "/page/informers" },
  { name: "not-found", path: "/page/nowhere" },
];

/** Returns the path of the first link that a selector finds on a page. */
async function follow(page: Page, url: string, path: string, selector: string): Promise<string | undefined> {
  await page.goto(url + path);
  await ready(page);
  return (await page.locator(selector).first().getAttribute("href", { timeout: 2000 }).catch(() => null)) ?? undefined;
}

/** Returns the kinds among which the walk takes the first with objects: PAGE_KIND, or custom ones. */
async function kindsToTry(page: Page, url: string): Promise<string[]> {
  const chosen = process.env["PAGE_KIND"];
  if (chosen) return [chosen];
  await page.goto(`${url}/page/kinds`);
  await ready(page);
  const hrefs = await page.locator(".kind-list li:has(.tag) a").evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
  return hrefs.slice(0, 10);
}

/** Returns the places to walk. */
export async function places(setup: Setup, page: Page): Promise<Place[]> {
  if (process.env["PAGE_HOST"]) return HOST;
  const found: Place[] = ["plugins", "kinds", "tenants", "informers"].map((name) => ({ name, path: `/page/${name}` }));
  const add = (name: string, path: string | undefined) => {
    if (path) found.push({ name, path });
    return path;
  };
  add("plugin", await follow(page, setup.url, "/page/plugins", ".virtual tbody a"));
  for (const kind of await kindsToTry(page, setup.url)) {
    const object = await follow(page, setup.url, kind, ".virtual tbody a");
    if (!object) continue;
    add("kind", kind);
    add("object", object);
    break;
  }
  return found;
}
