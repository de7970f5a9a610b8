// Server-sent events, cut anywhere.

import { test } from "node:test";
import assert from "node:assert/strict";
import { EventParser, type ServerEvent } from "../../src/model/event_stream.ts";

const TEXT = ': open\n\nevent: rows\ndata: {"rows":[1]}\n\nevent:back\r\ndata:{}\r\n\r\ndata: a\ndata:  b\nid: 7\n\nevent: nothing\n\ndata\n\nevent: cut\ndata: half';
const EVENTS: ServerEvent[] = [
  { name: "rows", data: '{"rows":[1]}' },
  { name: "back", data: "{}" },
  { name: "message", data: "a\n b" },
  { name: "message", data: "" },
];

test("events are the same however the text is cut", () => {
  for (let size = 1; size <= TEXT.length; size += 1) {
    const parser = new EventParser();
    const events: ServerEvent[] = [];
    for (let at = 0; at < TEXT.length; at += size) events.push(...parser.add(TEXT.slice(at, at + size)));
    assert.deepEqual(events, EVENTS, `pieces of ${size}`);
  }
});
