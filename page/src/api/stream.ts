// A stream of server-sent events that comes back by itself. EventSource does not tell why a stream ended, so after an end one
// request finds out: the session may be over, a right may be missing, or the host is away. A hidden tab closes its stream after
// a while, because browsers and the host limit the open ones (six of a browser over HTTP/1.1); it opens it again when it is shown.

import { afterBreak, serverLost, type Answer, type Status } from "../model/connection.ts";
import { failureOf, isJson, leaveForSignIn } from "./request.ts";

/** The receivers of a stream's events, by name. `start` is called at each begin: the state is sent anew. */
export interface Handlers {
  start?: () => void;
  status: (status: Status) => void;
  events: Record<string, (data: unknown) => void>;
  /** The event that a plain JSON answer stands for, where the host has no stream. */
  snapshot?: string;
}

/** The time after which a hidden tab closes its stream, and the period of polling, in milliseconds. */
const HIDDEN = 5_000;
const POLL = 3_000;

/** All streams of this tab, for the banner. */
const open = new Map<Stream, Status>();
const watchers = new Set<() => void>();

/** Calls back when the state of a stream changes; returns the end of that. */
export function watchStreams(changed: () => void): () => void {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

/** Returns the states of all streams. */
export function streamStates(): Iterable<Status> {
  return open.values();
}

/** One stream. */
export class Stream {
  readonly #url: string;
  readonly #handlers: Handlers;
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempt = 0;
  #ended = false;
  readonly #visibility = () => this.#followVisibility();

  constructor(url: string, handlers: Handlers) {
    this.#url = url;
    this.#handlers = handlers;
    document.addEventListener("visibilitychange", this.#visibility);
    this.#tell({ phase: "connecting" });
    this.#connect();
  }

  /** Ends the stream. */
  close(): void {
    this.#ended = true;
    document.removeEventListener("visibilitychange", this.#visibility);
    this.#disconnect();
    open.delete(this);
    for (const changed of watchers) changed();
  }

  #connect(): void {
    this.#disconnect();
    const source = new EventSource(this.#url);
    this.#source = source;
    source.onopen = () => {
      this.#attempt = 0;
      this.#handlers.start?.();
      this.#tell({ phase: "open" });
    };
    source.onerror = () => {
      source.close();
      if (this.#source === source && !this.#ended) void this.#broken();
    };
    source.addEventListener("lost", ({ data }: MessageEvent<string>) => this.#tell(serverLost((JSON.parse(data) as { message?: string }).message)));
    source.addEventListener("back", () => this.#tell({ phase: "open" }));
    for (const [name, receive] of Object.entries(this.#handlers.events)) {
      source.addEventListener(name, (event) => {
        // EventSource names its own failures `error` too; those have no data.
        if (event instanceof MessageEvent) receive(JSON.parse(event.data as string));
      });
    }
  }

  #disconnect(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
  }

  async #broken(): Promise<void> {
    const answer = await this.#ask();
    if (this.#ended) return;
    const next = afterBreak(answer, this.#attempt, Math.random());
    this.#attempt = next.do === "poll" ? 0 : this.#attempt + 1;
    if (next.do === "sign-in") {
      leaveForSignIn();
    } else if (next.do === "poll") {
      this.#tell({ phase: "open" });
      this.#timer = setTimeout(() => void this.#broken(), POLL);
    } else {
      this.#tell(next.status);
      this.#timer = setTimeout(() => this.#connect(), next.after);
    }
  }

  /** Requests the stream's address once and returns how the host answers. A JSON answer is the state itself. */
  async #ask(): Promise<Answer> {
    const abort = new AbortController();
    try {
      const response = await fetch(this.#url, { headers: { accept: "text/event-stream" }, signal: abort.signal });
      if (!response.ok) return { status: response.status, ...(await failureOf(response)) };
      if (!this.#handlers.snapshot || !isJson(response)) return { status: response.status };
      this.#handlers.events[this.#handlers.snapshot]?.(await response.json());
      return "json";
    } catch {
      return "unreachable";
    } finally {
      abort.abort();
    }
  }

  #followVisibility(): void {
    if (document.hidden) {
      setTimeout(() => {
        if (document.hidden && !this.#ended) this.#disconnect();
      }, HIDDEN);
    } else if (!this.#source && !this.#ended) {
      this.#connect();
    }
  }

  #tell(status: Status): void {
    open.set(this, status);
    this.#handlers.status(status);
    for (const changed of watchers) changed();
  }
}
