// The session of this browser. Its cookie goes to every port of the host's address, so the host also wants a secret that only pages
// of this origin can keep: it came with the answer to the sign-in. Each tab has its own sessionStorage; a new tab asks the others.

/** The request header with the secret. */
const HEADER = "x-operetta-session";
const KEY = "operetta-session";
/** How long a new tab waits for another one to answer, in milliseconds. */
const PATIENCE = 250;

/** What tabs of this origin tell each other: one without a secret asks, another one has it. */
type Told = "ask" | { secret: string };

/** Returns the headers that a request to the host needs. */
export function withSecret(headers: Record<string, string>): Record<string, string> {
  const secret = sessionStorage.getItem(KEY);
  return secret ? { ...headers, [HEADER]: secret } : headers;
}

/** Keeps the secret of a sign-in and returns where to go, or undefined on any other page. */
export function signedIn(page: Document): string | undefined {
  const sent = page.getElementById("app")?.dataset;
  if (!sent?.secret || !sent.next) return undefined;
  sessionStorage.setItem(KEY, sent.secret);
  return sent.next;
}

/** Answers other tabs, and gets the secret from one of them if this tab has none. */
export async function shareSecret(): Promise<void> {
  const channel = new BroadcastChannel(KEY);
  const got = new Promise<void>((resolve) => {
    channel.onmessage = ({ data }: MessageEvent<Told>) => {
      const secret = sessionStorage.getItem(KEY);
      if (data === "ask") {
        if (secret) channel.postMessage({ secret } satisfies Told);
      } else if (!secret) {
        sessionStorage.setItem(KEY, data.secret);
        resolve();
      }
    };
  });
  if (sessionStorage.getItem(KEY)) return;
  channel.postMessage("ask" satisfies Told);
  await Promise.race([got, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  try {
    await fetch("/page/sign-out", { method: "POST", headers: withSecret({}), credentials: "same-origin", redirect: "manual" });
  } finally {
    sessionStorage.removeItem(KEY);
    location.assign("/page/sign-in");
  }
}
