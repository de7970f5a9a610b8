/** Results and the finalizer: the suite checks how often and when the host reconciles these cases again. */
import {
  type Context,
  done,
  finalizer,
  requeue,
  requeueAfter,
  type Result,
  type Stored,
  TerminalError,
} from "@operetta/sdk";
import { ConfigMap } from "@operetta/sdk/kinds";

type Reconcile = (ctx: Context, map: Stored<ConfigMap>) => Result | void;

/** Appends the retries to the target's `runs` with a merge patch, and returns the number of runs. */
function appendRun(ctx: Context, map: Stored<ConfigMap>): number {
  const key = { namespace: map.metadata.namespace, name: map.data?.["target"] ?? "" };
  const before = ctx.get(ConfigMap, key, { live: true }).data?.["runs"] ?? "";
  const runs = `${before}${ctx.request.retries} `;
  ctx.patch(ConfigMap, key, { merge: { data: { runs } } });
  return runs.trim().split(" ").length;
}

/** Appends a run and calls `then`; does nothing if the case already has its result. */
function running(then: (runs: number) => Result | void): Reconcile {
  return (ctx, map) => (map.data?.["result"] === undefined ? then(appendRun(ctx, map)) : done());
}

function sing(): never {
  throw new Error("boom at the opera");
}

export const resultCases: Readonly<Record<string, Reconcile>> = {
  "result-done": running(() => done()),
  "result-requeue": running((runs) => (runs < 3 ? requeue() : done())),
  "result-requeue-after": running((runs) => (runs < 2 ? requeueAfter(300) : done())),

  "result-error": running((runs) => {
    if (runs < 3) {
      throw new Error("no luck yet");
    }
  }),

  "result-terminal": running(() => {
    throw new TerminalError("no use to retry");
  }),

  "result-panic": running((runs) => {
    if (runs < 2) {
      sing();
    }
  }),

  "map-keys": running(() => done()),
  "map-deleted": running(() => done()),
  "map-error": running(() => done()),
  "map-pruned": running(() => done()),

  finalizer: (ctx, map) =>
    finalizer(ctx, map, "conformance.operetta.dev/cleanup", {
      apply: () => done(),
      cleanup({ metadata: { namespace } }) {
        // Not `create`: the step may run again.
        ctx.createOrUpdate(ConfigMap, { metadata: { namespace, name: "finalizer-cleaned" } }, () => {});
      },
    }),
};
