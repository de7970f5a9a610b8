// Loads the built plugin, dist/main.js, as Headlamp does: with Headlamp's own library in `window.pluginLib`. Its pages are drawn
// with Headlamp's components, from a stand-in for the API server.

import "@kinvolk/headlamp-plugin/lib/plugin/index";
import { readFileSync } from "node:fs";
import themes from "@kinvolk/headlamp-plugin/lib/components/App/defaultAppThemes";
import { setStore } from "@kinvolk/headlamp-plugin/lib/lib/router/createRouteURL";
import { createMuiTheme } from "@kinvolk/headlamp-plugin/lib/lib/themes";
import store from "@kinvolk/headlamp-plugin/lib/redux/stores/store";
import { ThemeProvider } from "@mui/material/styles";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import type { ComponentType, ReactNode } from "react";
import { Provider } from "react-redux";
import { BrowserRouter, Route } from "react-router-dom";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { failing, healthy } from "./objects";

// Headlamp asks the browser's database for a kubeconfig of the cluster, and jsdom has none.
vi.mock("@kinvolk/headlamp-plugin/lib/stateless/findKubeconfigByClusterName", () => ({
  findKubeconfigByClusterName: async () => null,
}));

const LIST = "/apis/operetta.dev/v1alpha1/plugins";

/** Returns what an API server answers. */
function answer(path: string): unknown {
  const list = (kind: string, apiVersion: string, items: unknown[]) => ({
    kind,
    apiVersion,
    metadata: { resourceVersion: "1" },
    items,
  });
  if (path.endsWith(LIST)) {
    return list("PluginList", "operetta.dev/v1alpha1", [failing, healthy]);
  }
  if (path.endsWith("/namespaces/shop/plugins/cart")) {
    return failing;
  }
  return list("List", "v1", []);
}

beforeAll(() => {
  setStore(store);
  vi.stubGlobal("fetch", async (url: string | URL | Request) => {
    const { pathname } = new URL(url instanceof Request ? url.url : url, "http://localhost");
    return new Response(JSON.stringify(answer(pathname)), { headers: { "Content-Type": "application/json" } });
  });
  // The watches of lists stay silent.
  vi.stubGlobal("WebSocket", class extends EventTarget {
    close() {}
    send() {}
  });
  window.history.pushState({}, "", "/c/test");
  const code = readFileSync("dist/main.js", "utf8");
  // Without `exports` and `module`, as in a browser.
  new Function("exports", "module", "define", code)();
});
afterEach(cleanup);

function draw(content: ReactNode) {
  render(
    <Provider store={store}>
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <ThemeProvider theme={createMuiTheme(themes[0])}>
          <BrowserRouter>{content}</BrowserRouter>
        </ThemeProvider>
      </QueryClientProvider>
    </Provider>,
  );
}

/** Draws the page of a route at a path. */
function visit(name: string, path: string) {
  const routes = Object.values(store.getState().routes.routes);
  const route = routes.find((route) => route.name === name);
  if (route === undefined) {
    throw new Error(`no route is named ${name}`);
  }
  window.history.pushState({}, "", `/c/test${path}`);
  draw(<Route path={`/c/:cluster${route.path}`} component={route.component as ComponentType} />);
}

test("the sidebar leads to the list", () => {
  const entry = store.getState().sidebar.entries["operetta-plugins"];
  expect(entry).toMatchObject({ label: "Operetta", url: "/operetta/plugins" });
});

test("the list has the state and the reason of each Plugin", async () => {
  visit("operetta-plugins", "/operetta/plugins");
  const link = await screen.findByRole("link", { name: "cart" }, { timeout: 10_000 });
  expect(link.getAttribute("href")).toBe("/c/test/operetta/plugins/shop/cart");
  const row = link.closest("tr");
  expect(row?.textContent).toContain("Degraded");
  expect(row?.textContent).toContain("ReconcileErrors");
  expect(screen.getByRole("link", { name: "web" }).closest("tr")?.textContent).toContain("Ready");
});

test("the page of a Plugin has its controllers and commands", async () => {
  visit("operetta-plugin", "/operetta/plugins/shop/cart");
  const error = "shop/a: failed to apply: quota exceeded";
  await screen.findByText(error, {}, { timeout: 10_000 });
  screen.getByText("operetta why cart shop/a -n shop");
  expect(screen.getAllByText("Degraded").length).toBeGreaterThan(0);
});

test("the details of another object have no sections of Operetta", () => {
  const sections = store.getState().detailsViewSection.detailsViewSections;
  const Section = sections[0].section as ComponentType<{ resource: unknown }>;
  const other = { kind: "Plugin", apiVersion: "example.com/v1", metadata: { name: "x" } };
  draw(<Section resource={{ kind: "Plugin", jsonData: other }} />);
  expect(screen.queryByText("Controllers")).toBeNull();
  cleanup();
  draw(<Section resource={{ kind: "Plugin", jsonData: healthy }} />);
  screen.getByText("Controllers");
});
