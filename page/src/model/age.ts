// Durations as kubectl prints them.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

function pair(value: number, unit: number, name: string, rest: number, restName: string): string {
  const whole = Math.floor(value / unit);
  const remainder = Math.floor((value - whole * unit) / rest);
  return remainder === 0 ? `${whole}${name}` : `${whole}${name}${remainder}${restName}`;
}

/** Returns a duration of milliseconds as kubectl's HumanDuration does: `5s`, `3m12s`, `5h`, `3d4h`, `412d`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "";
  const value = Math.max(0, ms);
  if (value < 2 * MINUTE) return `${Math.floor(value / SECOND)}s`;
  if (value < 10 * MINUTE) return pair(value, MINUTE, "m", SECOND, "s");
  if (value < 3 * HOUR) return `${Math.floor(value / MINUTE)}m`;
  if (value < 8 * HOUR) return pair(value, HOUR, "h", MINUTE, "m");
  if (value < 2 * DAY) return `${Math.floor(value / HOUR)}h`;
  if (value < 8 * DAY) return pair(value, DAY, "d", HOUR, "h");
  if (value < 730 * DAY) return `${Math.floor(value / DAY)}d`;
  return pair(value, 365 * DAY, "y", DAY, "d");
}

/** Returns the age of a time at the time `now`, or nothing if the time is missing or not a time. */
export function age(time: string | null | undefined, now: number): string {
  if (!time) return "";
  const at = Date.parse(time);
  return Number.isFinite(at) ? duration(now - at) : "";
}

/** Returns the time until `time`: `in 12s`, or `now`. */
export function until(time: string | null | undefined, now: number): string {
  if (!time) return "";
  const at = Date.parse(time);
  if (!Number.isFinite(at)) return "";
  return at - now < SECOND ? "now" : `in ${duration(at - now)}`;
}

const UNITS: Record<string, number> = { y: 365 * DAY, d: DAY, h: HOUR, m: MINUTE, s: SECOND };

/** Parses a duration that kubectl printed, or returns undefined. */
export function parseDuration(text: string): number | undefined {
  if (!/^(\d+[ydhms])+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, number, unit] of text.matchAll(/(\d+)([ydhms])/g)) sum += Number(number) * (UNITS[unit ?? ""] ?? 0);
  return sum;
}
