// Hooks that bind streams and requests to components.

import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Status } from "../model/connection.ts";
import { getJson, RequestError } from "./request.ts";
import { Stream, type Handlers } from "./stream.ts";

/** Opens a stream while the component is shown, and returns its state. The handlers of the first render with a URL are used. */
export function useStream(url: string, handlers: () => Omit<Handlers, "status">): Status {
  const [status, setStatus] = useState<Status>({ phase: "connecting" });
  useEffect(() => {
    const stream = new Stream(url, { ...handlers(), status: setStatus });
    return () => stream.close();
  }, [url]);
  return status;
}

/** Opens a stream whose event has the whole value, and returns the newest value. */
export function useValue<T>(url: string, event: string): { value: T | undefined; status: Status } {
  const [held, setHeld] = useState<{ url: string; value: T }>();
  const [refusal, setRefusal] = useState<Status>();
  const receive = (value: unknown) => {
    setRefusal(undefined);
    setHeld({ url, value: value as T });
  };
  const status = useStream(url, () => ({
    start: () => setRefusal(undefined),
    events: { [event]: receive, failed: (failure) => setRefusal({ ...(failure as object), phase: "failed" }) },
    snapshot: event,
  }));
  return { value: held?.url === url ? held.value : undefined, status: refusal ?? status };
}

/** The answer of a request. `missing`: the host has no such route. */
export interface Loaded<T> {
  value?: T;
  missing: boolean;
  error?: string;
}

/** Requests JSON again and again while the tab is shown. A route that the host does not have is asked for once. */
export function usePolled<T>(url: string, period: number): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({ missing: false });
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const load = async () => {
      const next = document.hidden ? undefined : await request<T>(url, abort.signal);
      if (abort.signal.aborted) return;
      if (next) setLoaded(next);
      if (!next?.missing) timer = setTimeout(() => void load(), period);
    };
    setLoaded({ missing: false });
    void load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [url, period]);
  return loaded;
}

async function request<T>(url: string, signal: AbortSignal): Promise<Loaded<T>> {
  try {
    return { value: await getJson<T>(url, signal), missing: false };
  } catch (error) {
    if (error instanceof RequestError && error.status === 404) return { missing: true };
    return { missing: false, error: error instanceof Error ? error.message : String(error) };
  }
}

/** Renders again every `period` milliseconds, so that ages advance. */
export function useTick(period: number): void {
  const [, tick] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => tick(undefined as never), period);
    return () => clearInterval(timer);
  }, [period]);
}

/** Returns a reference that always has the newest value. */
export function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value);
  latest.current = value;
  return latest;
}
