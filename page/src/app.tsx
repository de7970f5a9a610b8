// The frame of the page: its head with the navigation, the banner, and the page of the address.

import { useEffect, useState } from "preact/hooks";
import { getMe } from "./api/request.ts";
import { signOut } from "./api/session.ts";
import { fitted } from "./model/graph.ts";
import { format, parse, type Route } from "./model/route.ts";
import { InformersPage } from "./pages/informers.tsx";
import { KindPage } from "./pages/kind.tsx";
import { KindsPage } from "./pages/kinds.tsx";
import { ObjectPage } from "./pages/object.tsx";
import { PluginPage } from "./pages/plugin.tsx";
import { PluginsPage } from "./pages/plugins.tsx";
import { TenantsPage } from "./pages/tenants.tsx";
import { Banner } from "./view/banner.tsx";
import { KeysHelp, useKeys } from "./view/keys.tsx";
import { followLinks, usePlace } from "./view/navigation.tsx";
import { PageHead } from "./view/page_head.tsx";
import { Empty } from "./view/panel.tsx";
import { ThemeSwitch } from "./view/theme.tsx";
import type { Me } from "./api/types.ts";

const SECTIONS: { text: string; href: string; pages: Route["page"][] }[] = [
  { text: "Plugins", href: "/page/plugins", pages: ["plugins", "plugin"] },
  { text: "Kinds", href: "/page/kinds", pages: ["kinds", "kind", "object"] },
  { text: "Tenants", href: "/page/tenants", pages: ["tenants"] },
  { text: "Informers", href: "/page/informers", pages: ["informers"] },
];
/** The period after which the host's clock is read again, in milliseconds: clocks drift, and laptops sleep. */
const CLOCK = 300_000;
/** The characters of the host's name that are shown. */
const HOST = 16;

/** The whole page. */
export function App() {
  const place = usePlace();
  const route = parse(place.path);
  const [help, setHelp] = useState(false);
  useKeys(() => setHelp(true));
  // A page of many parts scrolls in the window; a new place begins at its top.
  useEffect(() => scrollTo(0, 0), [place.path]);
  return (
    <div class="app" onClick={followLinks}>
      <a class="skip" href="#app">
        Skip to content
      </a>
      <Head page={route.page} onHelp={() => setHelp(true)} />
      <Banner />
      <main id="app" tabIndex={-1} key={place.path}>
        <Page route={route} query={place.query} />
      </main>
      <KeysHelp open={help} onClose={() => setHelp(false)} />
    </div>
  );
}

function Head({ page, onHelp }: { page: Route["page"]; onHelp: () => void }) {
  const [me, setMe] = useState<Me>();
  useEffect(() => {
    // Without an answer the head is empty; the banner reports the connection.
    const read = () => void getMe().then(setMe, () => undefined);
    read();
    const timer = setInterval(read, CLOCK);
    return () => clearInterval(timer);
  }, []);
  return (
    <header class="head">
      <a class="brand" href="/page/plugins">
        Operetta
      </a>
      <nav aria-label="Sections">
        <ul>
          {SECTIONS.map((section) => (
            <li key={section.href}>
              <a href={section.href} {...(section.pages.includes(page) && { "aria-current": section.pages[0] === page ? ("page" as const) : ("true" as const) })}>
                {section.text}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="head-end">
        <span class="me" title={me && `${me.user} on ${me.host}, version ${me.version}`}>
          {me && `${me.user} · ${fitted(me.host, HOST)} ${me.version}`}
        </span>
        <ThemeSwitch />
        <button type="button" onClick={onHelp} aria-label="Keys" aria-keyshortcuts="?">
          ?
        </button>
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </header>
  );
}

function Page({ route, query }: { route: Route; query: string }) {
  switch (route.page) {
    case "plugins":
      return <PluginsPage query={query} />;
    case "plugin":
      return <PluginPage route={route} />;
    case "kinds":
      return <KindsPage query={query} />;
    case "kind":
      return <KindPage route={route} query={query} />;
    case "object":
      return <ObjectPage route={route} />;
    case "tenants":
      return <TenantsPage />;
    case "informers":
      return <InformersPage query={query} />;
    default:
      return (
        <>
          <PageHead title="Not found" />
          <Empty>
            There is no page {format(route)}. <a href="/page/plugins">All plugins</a>
          </Empty>
        </>
      );
  }
}
