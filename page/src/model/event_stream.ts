// Server-sent events out of the text of a response, piece by piece: https://html.spec.whatwg.org/multipage/server-sent-events.html.
// EventSource itself cannot send a header.

/** An event with its data. */
export interface ServerEvent {
  name: string;
  data: string;
}

/** The state between two pieces of text. */
export class EventParser {
  /** The pieces of the last line, whose end has not come yet: joined once, because a line can have megabytes. */
  #line: string[] = [];
  #name = "";
  #data: string[] = [];

  /** Adds a piece and returns the events that it completes. */
  add(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    let start = 0;
    for (let end = piece.indexOf("\n"); end >= 0; end = piece.indexOf("\n", start)) {
      this.#line.push(piece.slice(start, end));
      const line = this.#line.join("");
      this.#line = [];
      start = end + 1;
      const event = this.#end(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event) events.push(event);
    }
    if (start < piece.length) this.#line.push(piece.slice(start));
    return events;
  }

  /** Adds a line. A blank one ends an event; one without data is none. */
  #end(line: string): ServerEvent | undefined {
    if (line !== "") {
      this.#field(line);
      return undefined;
    }
    const event = this.#data.length > 0 ? { name: this.#name || "message", data: this.#data.join("\n") } : undefined;
    this.#name = "";
    this.#data = [];
    return event;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#name = value;
    // A line that starts with a colon is a comment; `id` and `retry` are not used.
    if (name === "data") this.#data.push(value);
  }
}
