// The addresses of the page. Every view has one, so that it can be linked to.

/** A place in the page. */
export type Route =
  | { page: "plugins" }
  | { page: "plugin"; namespace: string; name: string }
  | { page: "kinds" }
  | { page: "kind"; group: string; version: string; plural: string }
  | { page: "object"; group: string; version: string; plural: string; namespace: string; name: string }
  | { page: "tenants" }
  | { page: "informers" }
  | { page: "unknown"; path: string };

const ROOT = "/page/";
/** The group's name in an address of the core group. */
const CORE = "core";
/** The namespace's name in an address of an object without one. */
const NO_NAMESPACE = "_";

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the place that a path names. */
export function parse(path: string): Route {
  const unknown: Route = { page: "unknown", path };
  if (!path.startsWith(ROOT)) return path === "/page" ? { page: "plugins" } : unknown;
  const parts = path.slice(ROOT.length).split("/").filter(Boolean).map(decoded);
  const [page, a, b, c, d, e] = parts;
  if (page === undefined) return { page: "plugins" };
  if (parts.length === 1 && (page === "plugins" || page === "kinds" || page === "tenants" || page === "informers")) return { page };
  if (page === "plugins" && parts.length === 3 && a && b) return { page: "plugin", namespace: a, name: b };
  if (page === "kinds" && parts.length === 4 && a && b && c) return { page: "kind", group: group(a), version: b, plural: c };
  if (page === "objects" && parts.length === 6 && a && b && c && d && e) {
    return { page: "object", group: group(a), version: b, plural: c, namespace: d === NO_NAMESPACE ? "" : d, name: e };
  }
  return unknown;
}

function group(part: string): string {
  return part === CORE ? "" : part;
}

function join(...parts: string[]): string {
  return parts.map(encodeURIComponent).join("/");
}

/** Returns the path of a place. */
export function format(route: Route): string {
  switch (route.page) {
    case "plugin":
      return `${ROOT}plugins/${join(route.namespace, route.name)}`;
    case "kind":
      return `${ROOT}kinds/${join(route.group || CORE, route.version, route.plural)}`;
    case "object":
      return `${ROOT}objects/${join(route.group || CORE, route.version, route.plural, route.namespace || NO_NAMESPACE, route.name)}`;
    case "unknown":
      return route.path;
    default:
      return ROOT + route.page;
  }
}

/** Returns the path of a place's data: `/page/api/…`. */
export function apiPath(route: Route): string {
  return format(route).replace(ROOT, `${ROOT}api/`);
}

/** Splits an apiVersion into group and version. */
export function splitApiVersion(apiVersion: string): { group: string; version: string } {
  const at = apiVersion.indexOf("/");
  return at < 0 ? { group: "", version: apiVersion } : { group: apiVersion.slice(0, at), version: apiVersion.slice(at + 1) };
}

/** An object, by the names that an address needs. */
export interface ObjectName {
  apiVersion: string;
  plural?: string | undefined;
  namespace?: string;
  name: string;
}

/** Returns the path of an object, or undefined if its plural is not known. */
export function objectPath(object: ObjectName): string | undefined {
  if (!object.plural) return undefined;
  return format({
    page: "object",
    ...splitApiVersion(object.apiVersion),
    plural: object.plural,
    namespace: object.namespace ?? "",
    name: object.name,
  });
}

/** Returns the path of a Plugin by its name, `NAMESPACE/NAME`. */
export function pluginPath(plugin: string): string {
  return format({ page: "plugin", ...splitKey(plugin) });
}

/** Returns the sign-in page that comes back to this place. */
export function signIn(path: string): string {
  return `${ROOT}sign-in?next=${encodeURIComponent(path.startsWith(ROOT) ? path : ROOT)}`;
}

/** Splits a key of a queue, `NAMESPACE/NAME` or `NAME`. */
export function splitKey(key: string): { namespace: string; name: string } {
  const at = key.indexOf("/");
  return at < 0 ? { namespace: "", name: key } : { namespace: key.slice(0, at), name: key.slice(at + 1) };
}
