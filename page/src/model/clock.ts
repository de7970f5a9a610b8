// The host's clock. Ages are differences between times of the cluster, so the browser's clock must not count: it may be wrong.

/** A clock that runs with the browser's, at the host's time. */
export class HostClock {
  #offset = 0;
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Sets the clock to the host's time, which was read between two times of the browser. */
  set(time: string, sent: number, received: number): void {
    const host = Date.parse(time);
    if (Number.isFinite(host)) this.#offset = host - (sent + received) / 2;
  }

  /** Returns the host's time, in milliseconds since 1970. */
  now(): number {
    return this.#now() + this.#offset;
  }
}

/** The clock of the page. */
export const clock = new HostClock();
