// Requests for JSON. A session that has ended leads to the sign-in, from where the user comes back to the same place.

import { clock } from "../model/clock.ts";
import { signIn } from "../model/route.ts";
import { withSecret } from "./session.ts";
import type { Failure, Me } from "./types.ts";

/** A refusal of the host, or a host that cannot be reached: status 0. */
export class RequestError extends Error {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, failure: Failure) {
    super(failure.message);
    this.status = status;
    this.reason = failure.reason;
  }
}

/** Leaves for the sign-in. */
export function leaveForSignIn(): void {
  location.assign(signIn(location.pathname + location.search));
}

/** Reports whether a response is JSON. */
export function isJson(response: Response): boolean {
  return (response.headers.get("content-type") ?? "").includes("json");
}

/** Returns the host's reason and message in a response that is not a success. */
export async function failureOf(response: Response): Promise<Failure> {
  const fallback = { reason: "", message: `The host answered ${response.status} ${response.statusText}`.trim() };
  if (!isJson(response)) return fallback;
  const body = (await response.json().catch(() => ({}))) as Partial<Failure>;
  return { reason: body.reason ?? "", message: body.message ?? fallback.message };
}

/** Requests JSON. */
export async function getJson<T>(url: string, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, { headers: withSecret({ accept: "application/json" }), credentials: "same-origin", ...(signal && { signal }) });
  } catch (error) {
    throw new RequestError(0, { reason: "Unreachable", message: `The host does not answer: ${String(error)}` });
  }
  if (response.status === 401) leaveForSignIn();
  if (!response.ok) throw new RequestError(response.status, await failureOf(response));
  return (await response.json()) as T;
}

/** Requests the user and sets the page's clock to the host's. */
export async function getMe(): Promise<Me> {
  const sent = Date.now();
  const me = await getJson<Me>("/page/api/me");
  clock.set(me.time, sent, Date.now());
  return me;
}
