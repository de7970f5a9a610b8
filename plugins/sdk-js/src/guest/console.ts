/**
 * `console`: the engine has none, and authors and libraries log through it. Lines go to the host's log, with their level;
 * the host is asked once per level and call whether it keeps them.
 *
 * While the plugin is built, when its modules run at their top level, there is no host: such lines are dropped.
 */
import log from "operetta:controller/log@0.1.0";

import { type Level, LEVELS, logLine } from "../log-line.ts";
import { stackOf } from "./stack.ts";

/** What the host answered; null while there is none. */
let enabled: Partial<Record<Level, boolean>> | null = null;

/** From here on there is a host. Its answers may have changed since an earlier call of the same instance. */
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
