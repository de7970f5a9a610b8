/**
 * The interpreter of `operetta dev`: a component with this SDK that evaluates the author's bundle in each call.
 * bin/develop.mjs builds it and makes the bundles.
 */
import source from "operetta:development/source@0.1.0";

import { failureOf, textOf } from "./failure.ts";
import { exportMapper, exportPlugin, type Mapper, type Reconciler } from "./index.ts";
import { type LineTable, setSourceLines, stackOf } from "./stack.ts";

/** What `operetta:development/source` returns, as JSON. */
interface Bundle {
  /** The body of a CommonJS module. */
  readonly code: string;
  readonly lines: LineTable;
}

/** The modules that a bundle leaves out, by name. */
type Modules = Readonly<Record<string, object>>;

type Exports = { readonly reconciler: Reconciler; readonly mapper: Mapper };

/** Returns the exports of the interpreter. */
export function exportInterpreter(modules: Modules): Exports {
  let evaluated: Exports | undefined;
  const exports = () => (evaluated ??= evaluate(JSON.parse(source.get()) as Bundle, modules));
  return {
    reconciler: {
      describe() {
        try {
          return exports().reconciler.describe();
        } catch (error) {
          source.fail(error instanceof Error ? `${textOf(error)}\n${stackOf(error)}`.trimEnd() : failureOf(error).val);
          return "";
        }
      },
      reconcile: (request) => started(exports, (error) => failureOf(error)).reconciler.reconcile(request),
    },
    mapper: {
      mapEvent: (event) => started(exports, (error) => failureOf(error).val).mapper.mapEvent(event),
    },
  };
}

/** Returns the exports, or throws what `convert` makes of the error. */
function started(exports: () => Exports, convert: (error: unknown) => unknown): Exports {
  try {
    return exports();
  } catch (error) {
    throw convert(error);
  }
}

/** Evaluates a bundle. Its first line is the first line of the engine's script, so that the table fits. */
function evaluate({ code, lines }: Bundle, modules: Modules): Exports {
  setSourceLines(lines);
  const module: { exports: { default?: unknown } } = { exports: {} };
  const require = (name: string) => {
    if (!Object.hasOwn(modules, name)) {
      throw new Error(`there is no module ${JSON.stringify(name)}: a plugin cannot load modules while it runs`);
    }
    return modules[name];
  };
  // An indirect eval sees no name of this module. Bundles of a build are strict, too.
  const run = (0, eval)(`(function (require, module, exports) { "use strict"; ${code}\n})`) as (
    ...args: unknown[]
  ) => void;
  run(require, module, module.exports);
  const plugin = module.exports.default;
  return { reconciler: exportPlugin(plugin, "mapping-plugin"), mapper: exportMapper(plugin as never) };
}
