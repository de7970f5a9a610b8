// The places of the walk. On a host they are found by following links, as the objects there are not known before.

import type { Page } from "playwright-core";
import { ready, type Setup } from "./browser.ts";

/** A place with a name for its screenshots. */
export interface Place {
  name: string;
  path: string;
}

const PROTOCOL: Place[] = [
  { name: "plugins", path: "/page/plugins" },
  { name: "plugin", path: "/page/plugins/team-b/image-mirror" },
  { name: "plugin-paused", path: "/page/plugins/team-c/spare" },
  { name: "kinds", path: "/page/kinds" },
  { name: "kind", path: "/page/kinds/samplecontroller.example.dev/v1alpha1/foos" },
  { name: "kind-filtered", path: "/page/kinds/samplecontroller.example.dev/v1alpha1/foos?q=foo&has=health%3Abad&sort=-Replicas&wide=true" },
  { name: "kind-empty", path: "/page/kinds/example.dev/v1/empties" },
  { name: "kind-forbidden", path: "/page/kinds/example.dev/v1/secretives" },
  { name: "object", path: "/page/objects/samplecontroller.example.dev/v1alpha1/foos/default/foo-0001" },
  { name: "object-plain", path: "/page/objects/core/v1/nodes/_/node-1" },
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
  if (setup.server) return PROTOCOL;
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
