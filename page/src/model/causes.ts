// Changes and their causes in words, those of `operetta why`.

import type { Because, Kind, Named, PluginWriter, Reconcile, Trigger } from "../api/types.ts";

/** The number of characters of a digest that are shown. */
const SHORT = 12;

/** The causes that are described without their objects. */
const OBJECTLESS = ["initial", "resync", "retry"];

/** Names an object as kubectl's users write it: `Kind namespace/name`. */
export function objectName({ kind, namespace, name }: Named): string {
  return `${kind} ${namespace ? `${namespace}/` : ""}${name}`;
}

/** Returns a time of the recorder, in milliseconds since 1970, in RFC 3339. */
export function timestamp(milliseconds: number): string {
  const date = new Date(milliseconds);
  return Number.isFinite(date.getTime()) ? date.toISOString() : "";
}

/** Names the field managers of a writer outside of the host. */
export function describeManagers(managers: string[]): string {
  return managers.length === 0 ? "an unknown writer outside of this host" : `field manager ${managers.join(" or ")}`;
}

/** Returns the digest of a plugin's code, cut. */
export function shortDigest(digest: string): string {
  return digest.replace(/^sha256:/, "").slice(0, SHORT);
}

/** Lists the reads before a write. */
export function describeReads(reads: PluginWriter["reads"]): string {
  return reads.map((read) => `${read.text}${read.resourceVersion ? `@${read.resourceVersion}` : ""}${read.isCached ? "" : " (live)"}`).join(", ");
}

/** The parts of a cause that has no causes of its own: words around an object. */
export interface PlainCause {
  before: string;
  object?: Named;
  after?: string;
}

/** Describes a cause that is not a change itself, as it reads after "because of". */
export function describeCause(because: Exclude<Because, { change: unknown }>): PlainCause {
  if (because === "hidden") return { before: "an object that you may not get" };
  if ("other" in because) return { before: because.other.text };
  const [{ object, resourceVersion }, known] = "seen" in because ? [because.seen, "explained above"] : [because.unrecorded, "which is not recorded"];
  return { before: "", object, after: `changed (resourceVersion ${resourceVersion}), ${known}` };
}

/** Describes what triggered a reconcile; `times` is the number of events of the same object and cause. */
export function describeTrigger({ cause, object, resourceVersion }: Trigger, times = 1): string {
  switch (cause) {
    case "initial":
      return "start of the controller, or new code or configuration";
    case "resync":
      return "resync of the controller";
    case "retry":
      return "operetta retry";
    default:
      return `${object ?? ""}${resourceVersion ? `@${resourceVersion}` : ""} ${cause}${times > 1 ? ` (${times} events)` : ""}`.trim();
  }
}

/** Names a retry by its number. */
export function nthRetry(retries: number): string {
  const rule = new Intl.PluralRules("en", { type: "ordinal" }).select(retries);
  const suffix = { one: "st", two: "nd", few: "rd" }[rule as string] ?? "th";
  return `the ${retries}${suffix} retry`;
}

/**
 * Describes all triggers of a reconcile, those of an object together. Without any, the reconcile before it asked for this one.
 * A retry is triggered by the failure before it, and has the triggers of the reconciles that failed.
 */
export function describeTriggers({ triggers, retries = 0 }: Reconcile): string[] {
  if (retries > 0) return [nthRetry(retries), ...describeEvents(triggers).map((text) => `since ${text}`)];
  if (triggers.length === 0) return ["the reconcile before it, which failed or asked to be repeated"];
  return describeEvents(triggers);
}

function describeEvents(triggers: Trigger[]): string[] {
  const same = new Map<string, Trigger[]>();
  for (const trigger of triggers) {
    const key = OBJECTLESS.includes(trigger.cause) ? trigger.cause : `${trigger.cause} ${trigger.object ?? ""}`;
    same.set(key, [...(same.get(key) ?? []), trigger]);
  }
  return [...same.values()].map((group) => describeTrigger(group.at(-1) as Trigger, group.length));
}

/** Returns a function that finds the plural of an object's kind. */
export function pluralsOf(kinds: Kind[]): (object: { apiVersion: string; kind: string }) => string | undefined {
  const plurals = new Map(kinds.map((kind) => [`${kind.group ? `${kind.group}/` : ""}${kind.version} ${kind.kind}`, kind.plural]));
  return ({ apiVersion, kind }) => plurals.get(`${apiVersion} ${kind}`);
}
