// A server that speaks the page's protocol with the answers of answers.ts. It tests the browser's side alone.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import * as answers from "./answers.ts";

const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/** The token that the server accepts. */
export const TOKEN = "good-token";
/** The session that it opens. */
const ID = "1d".repeat(32);
const SECRET = "5e".repeat(32);
/** The number of rows of a kind, by plural. */
const SIZES: Record<string, number> = { tens: 10_000, hundreds: 100_000, empties: 0 };

/** A running server. */
export class ProtocolServer {
  /** `http://127.0.0.1:PORT`. */
  url = "";
  readonly #kinds = answers.kinds();
  readonly #open = new Map<ServerResponse, string>();
  readonly #dist: string;
  readonly #http = createServer((request, response) => this.#serve(request, response));

  constructor(dist: string) {
    this.#dist = dist;
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#http.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
    return this;
  }

  async stop(): Promise<void> {
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  /** Sends an event to the streams of a path. */
  send(path: string, event: string, data: unknown): void {
    for (const [response, at] of this.#open) if (at === path) emit(response, event, data);
  }

  /** The number of open streams. */
  get streams(): number {
    return this.#open.size;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://host");
    response.setHeader("content-security-policy", CSP);
    response.setHeader("x-content-type-options", "nosniff");
    if (url.pathname.startsWith("/page/assets/")) this.#asset(url.pathname.slice("/page/assets/".length), response);
    else if (url.pathname === "/page/sign-in") this.#signIn(request, response);
    else if (!this.#authenticated(request, url.pathname)) json(response, { reason: "Unauthorized", message: "send the token" }, 401);
    else if (url.pathname.startsWith("/page/api/")) this.#api(request, response, url);
    else this.#shell(response);
  }

  /** The cookie is enough for a page without data. */
  #authenticated(request: IncomingMessage, path: string): boolean {
    const id = /operetta-session=([^;]+)/.exec(request.headers.cookie ?? "")?.[1];
    return id === ID && (!path.startsWith("/page/api/") || request.headers["x-operetta-session"] === SECRET);
  }

  #signIn(request: IncomingMessage, response: ServerResponse): void {
    let body = "";
    request.setEncoding("utf8").on("data", (piece: string) => (body += piece));
    request.on("end", () => {
      if (new URLSearchParams(body).get("token") !== TOKEN) return json(response, { reason: "TokenRefused", message: "send the token" }, 401);
      response.setHeader("set-cookie", `operetta-session=${ID}; HttpOnly; SameSite=Strict; Path=/page`);
      return this.#page(response, `<main id="app" data-secret="${SECRET}" data-next="/page/plugins"><h1>Signed in</h1></main>`);
    });
  }

  #asset(name: string, response: ServerResponse): void {
    response.setHeader("content-type", name.endsWith(".css") ? "text/css" : "text/javascript");
    response.setHeader("cache-control", "public, max-age=31536000, immutable");
    response.end(readFileSync(`${this.#dist}/${name}`));
  }

  #shell(response: ServerResponse): void {
    this.#page(response, `<main id="app"><h1>Operetta</h1></main>`);
  }

  #page(response: ServerResponse, main: string): void {
    const manifest = JSON.parse(readFileSync(`${this.#dist}/manifest.json`, "utf8")) as Record<string, string>;
    html(response, "Operetta", main, `<link rel="stylesheet" href="/page/assets/${manifest["app.css"]}"><script type="module" src="/page/assets/${manifest["app.js"]}"></script>`);
  }

  #api(request: IncomingMessage, response: ServerResponse, url: URL): void {
    const path = url.pathname;
    const parts = path.slice("/page/api/".length).split("/").map(decodeURIComponent);
    const stream = (request.headers.accept ?? "").includes("event-stream");
    const [page = "", a = "", b = "", c = "", d = "", e = ""] = parts;
    if (page === "me") return json(response, { user: "jane@example.dev", host: "operetta", version: "0.1.0", time: new Date().toISOString() });
    if (page === "why") return json(response, answers.explanation());
    if (parts.length === 4 && parts[3] === "reconciles") return json(response, answers.history());
    if (parts.length === 4 && parts[3] === "unused") return json(response, { since: new Date(Date.now() - 600_000).toISOString(), unused: ['delete configmaps in namespace "default" (Role default/image-mirror, RoleBinding default/image-mirror)'] });
    if (parts.length === 4 && parts[3] === "log") return this.#log(response, path);
    if (page === "plugins" && a) return this.#value(response, path, "plugin", answers.plugin(a, b), stream);
    if (page === "plugins") return this.#value(response, path, "plugins", { plugins: answers.plugins(), hidden: 2 }, stream);
    if (page === "kinds" && c) return this.#rows(response, path, c, url);
    if (page === "kinds") return this.#value(response, path, "kinds", { kinds: this.#kinds }, stream);
    if (page === "objects") return this.#object(response, path, a, b, c, d === "_" ? "" : d, e);
    if (page === "tenants") return json(response, { tenants: answers.tenants() });
    if (page === "informers") return json(response, { informers: answers.informers(), beingSetUp: [] });
    return json(response, { reason: "NotFound", message: `there is no ${path}` }, 404);
  }

  #value(response: ServerResponse, path: string, event: string, value: unknown, stream: boolean): void {
    if (value === undefined) return json(response, { reason: "NotFound", message: "there is no such Plugin on this host" }, 404);
    if (!stream) return json(response, value);
    this.#stream(response, path);
    return emit(response, event, value);
  }

  #stream(response: ServerResponse, path: string): void {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(": open\n\n");
    this.#open.set(response, path);
    response.on("close", () => this.#open.delete(response));
  }

  #log(response: ServerResponse, path: string): void {
    this.#stream(response, path);
    for (let i = 0; i < 40; i += 1) {
      const level = i % 13 === 0 ? "error" : i % 5 === 0 ? "warn" : i % 3 === 0 ? "debug" : "info";
      emit(response, "line", { time: new Date(Date.now() - (40 - i) * 1000).toISOString(), level, controller: "foos", key: `default/foo-000${i % 9}`, reconcileId: `r${i}`, message: level === "error" ? `failed to apply Deployment: conflict ${answers.HOSTILE}` : "reconciled", fields: [["replicas", String(i)]] });
    }
  }

  #rows(response: ServerResponse, path: string, plural: string, url: URL): void {
    if (plural === "secretives") return json(response, { reason: "Forbidden", message: `User "jane@example.dev" cannot list resource "secretives" in API group "example.dev" at the cluster scope: missing right: list, watch secretives.example.dev` }, 403);
    const kind = this.#kinds.find((other) => other.plural === plural);
    if (!kind) return json(response, { reason: "NotFound", message: `the server has no kind ${plural}` }, 404);
    this.#stream(response, path);
    const namespace = url.searchParams.get("namespace");
    const count = SIZES[plural] ?? 200;
    emit(response, "columns", { columns: answers.COLUMNS, kind: kind.kind, namespaced: kind.namespaced });
    for (let first = 0; first < count; first += 500) {
      const rows = Array.from({ length: Math.min(500, count - first) }, (_, i) => answers.row(first + i));
      emit(response, "rows", { rows: namespace ? rows.filter((row) => row.namespace === namespace) : rows });
    }
    emit(response, "synced", { count });
  }

  #object(response: ServerResponse, path: string, group: string, version: string, plural: string, namespace: string, name: string): void {
    const kind = this.#kinds.find((other) => other.plural === plural);
    if (!kind || name === "missing") return json(response, { reason: "NotFound", message: `${plural} "${name}" not found` }, 404);
    this.#stream(response, path);
    emit(response, "object", answers.object(namespace, name, kind.kind, group === "core" ? version : `${group}/${version}`));
  }
}

function emit(response: ServerResponse, event: string, data: unknown): void {
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(value));
}

function html(response: ServerResponse, title: string, body: string, head = ""): void {
  response.setHeader("content-type", "text/html; charset=utf-8");
  response.end(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>${head}</head><body>${body}</body></html>`);
}
