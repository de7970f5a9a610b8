// The lines of a log that the page keeps: the newest, a bounded number.

import { textMatcher } from "./filter.ts";
import type { LogLine } from "../api/types.ts";

/** The lines that are kept. */
const KEPT = 5000;
const LEVELS = ["trace", "debug", "info", "warn", "error"];

/** A line with its number, which identifies it. */
export interface NumberedLine extends LogLine {
  number: number;
}

/** Returns the text of a line that the filter reads. */
export function lineText(line: LogLine): string {
  const fields = (line.fields ?? []).map(([name, value]) => `${name}=${value}`).join(" ");
  return `${line.level} ${line.controller ?? ""} ${line.key ?? ""} ${line.message} ${fields}`;
}

/** The kept lines. */
export class LogBuffer {
  #lines: NumberedLine[] = [];
  #next = 0;

  /** Adds a line, and drops the oldest if there are too many. */
  add(line: LogLine): void {
    this.#lines.push({ ...line, number: this.#next });
    this.#next += 1;
    if (this.#lines.length > KEPT + KEPT / 10) this.#lines.splice(0, this.#lines.length - KEPT);
  }

  /** Drops all lines: the stream starts over. */
  clear(): void {
    this.#lines = [];
  }

  /** Returns the newest lines of this level or a worse one that contain the text. */
  view(level: string, q: string, most: number): NumberedLine[] {
    const least = LEVELS.indexOf(level);
    const matches = textMatcher(q);
    const shown = this.#lines.filter(
      (line) => (least <= 0 || LEVELS.indexOf(line.level) >= least || !LEVELS.includes(line.level)) && (!q || matches(lineText(line).toLowerCase())),
    );
    return shown.slice(-most);
  }

  /** Returns the number of lines. */
  get size(): number {
    return this.#lines.length;
  }
}
