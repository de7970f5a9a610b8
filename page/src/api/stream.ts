// A stream of server-sent events that comes back by itself. It is a request of fetch: EventSource cannot send the session's secret, and
// does not tell whether the session is over, a right is missing, or the host is away. A hidden tab closes its stream after a while,
// because browsers and the host limit the open ones (six of a browser over HTTP/1.1); it opens it again when it is shown.

import { afterBreak, serverLost, type Answer, type Status } from "../model/connection.ts";
import { EventParser } from "../model/event_stream.ts";
import { failureOf, isJson, leaveForSignIn } from "./request.ts";
import { withSecret } from "./session.ts";

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
  /** Ends the request; none while the tab is hidden. */
  #request: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempt = 0;
  #ended = false;
  readonly #visibility = () => this.#followVisibility();

  constructor(url: string, handlers: Handlers) {
    this.#url = url;
    this.#handlers = handlers;
    document.addEventListener("visibilitychange", this.#visibility);
    this.#tell({ phase: "connecting" });
    void this.#connect();
  }

  /** Ends the stream. */
  close(): void {
    this.#ended = true;
    document.removeEventListener("visibilitychange", this.#visibility);
    this.#disconnect();
    open.delete(this);
    for (const changed of watchers) changed();
  }

  async #connect(): Promise<void> {
    this.#disconnect();
    const request = new AbortController();
    this.#request = request;
    const answer = await this.#read(request.signal);
    if (this.#request !== request) return;
    const next = afterBreak(answer, this.#attempt, Math.random());
    this.#attempt = next.do === "poll" ? 0 : this.#attempt + 1;
    if (next.do === "sign-in") {
      leaveForSignIn();
    } else if (next.do === "poll") {
      this.#tell({ phase: "open" });
      this.#timer = setTimeout(() => void this.#connect(), POLL);
    } else {
      this.#tell(next.status);
      this.#timer = setTimeout(() => void this.#connect(), next.after);
    }
  }

  #disconnect(): void {
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#request = undefined;
  }

  /** Reads the stream to its end and returns how the host answered. A JSON answer is the state itself. */
  async #read(signal: AbortSignal): Promise<Answer> {
    let response: Response;
    try {
      response = await fetch(this.#url, { headers: withSecret({ accept: "text/event-stream" }), credentials: "same-origin", signal });
      if (!response.ok) return { status: response.status, ...(await failureOf(response)) };
      if (isJson(response)) {
        const value: unknown = await response.json();
        if (!this.#handlers.snapshot || signal.aborted) return { status: response.status };
        this.#handlers.events[this.#handlers.snapshot]?.(value);
        return "json";
      }
    } catch {
      return "unreachable";
    }
    if (signal.aborted) return "unreachable";
    this.#attempt = 0;
    this.#handlers.start?.();
    this.#tell({ phase: "open" });
    await this.#receive(response, signal);
    return { status: response.status };
  }

  /** Hands over the events of a response until it ends or breaks. */
  async #receive(response: Response, signal: AbortSignal): Promise<void> {
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      // The next request finds out why a connection broke.
      const piece = await reader?.read().catch(() => undefined);
      if (!piece || piece.done || signal.aborted) return;
      for (const { name, data } of parser.add(piece.value)) {
        if (signal.aborted) return;
        try {
          this.#event(name, data);
        } catch (error) {
          // As with EventSource, a broken receiver does not end the stream.
          reportError(error);
        }
      }
    }
  }

  #event(name: string, data: string): void {
    if (name === "lost") this.#tell(serverLost((JSON.parse(data) as { message?: string }).message));
    if (name === "back") this.#tell({ phase: "open" });
    this.#handlers.events[name]?.(JSON.parse(data));
  }

  #followVisibility(): void {
    if (document.hidden) {
      setTimeout(() => {
        if (document.hidden && !this.#ended) this.#disconnect();
      }, HIDDEN);
    } else if (!this.#request && !this.#ended) {
      void this.#connect();
    }
  }

  #tell(status: Status): void {
    open.set(this, status);
    this.#handlers.status(status);
    for (const changed of watchers) changed();
  }
}
