/**
 * A `console` for the engine, which has none. Lines go to the host's log with their level. The log asks the host once
 * per level and call if the level is enabled.
 *
 * Lines of the modules' top level are dropped: it runs in the build, without a host.
 */
import log from "operetta:controller/log@0.1.0";

import { type Level, LEVELS, logLine } from "../log-line.ts";
import { stackOf } from "./stack.ts";

/** The levels that the host has enabled, as far as asked; null before the first call of the host. */
let enabled: Partial<Record<Level, boolean>> | null = null;

/** Enables the log, and forgets the levels of an earlier call of the same instance. */
export function startLog(): void {
  enabled = {};
}

/** Writes a line. */
export function writeLog(level: Level, args: readonly unknown[]): void {
  if (enabled && (enabled[level] ??= log.enabled(level))) {
    const { message, fields } = logLine(level, args, stackOf);
    log.write(level, message, fields);
  }
}

const logger: Record<string, unknown> = {
  assert(condition: unknown, ...args: unknown[]) {
    if (!condition) {
      writeLog("error", ["assertion failed:", ...args]);
    }
  },
  dir: (value: unknown) => writeLog("info", [value]),
};
for (const [name, level] of Object.entries(LEVELS)) {
  logger[name] = (...args: unknown[]) => writeLog(level, args);
}

Object.assign(globalThis, { console: logger });
