// The changes of an object, each with the tree of its causes below it.

import { useState } from "preact/hooks";
import { describeCause, describeManagers, describeReads, objectName, shortDigest, timestamp } from "../model/causes.ts";
import { objectPath, pluginPath } from "../model/route.ts";
import { plural } from "../model/units.ts";
import type { Because, Explanation, Named, PluginWriter, Step, Writer } from "../api/types.ts";

/** Finds the plural of an object's kind; undefined if the kind is not known. */
export type Plurals = (object: Named) => string | undefined;

/** The changes and their causes. Those of the newest change are open; the others unfold. */
export function Causes({ explanation, plurals }: { explanation: Explanation; plurals: Plurals }) {
  const { changes, older, hidden, silent = [] } = explanation;
  return (
    <>
      {changes.length > 0 && (
        <ol class="changes">
          {changes.map((step, i) => (
            <Folded key={`${step.resourceVersion}|${step.at}`} step={step} plurals={plurals} unfolded={i === 0} />
          ))}
        </ol>
      )}
      {older > 0 && <p class="note">{`${plural(older, "older change is", "older changes are")} recorded.`}</p>}
      {hidden > 0 && <p class="note">{`${plural(hidden, "object or Plugin is", "objects or Plugins are")} left out: you may not get them.`}</p>}
      {silent.map((replica) => (
        <p class="warning" key={replica}>{`A replica of the host did not answer, so changes may be missing: ${replica}`}</p>
      ))}
    </>
  );
}

/** A change whose causes unfold. */
function Folded({ step, plurals, unfolded }: { step: Step; plurals: Plurals; unfolded: boolean }) {
  // The first value stays: a newer change must not close what the user reads.
  const [open] = useState(unfolded);
  const { because = [] } = step;
  return (
    <li>
      <Change step={step} plurals={plurals} />
      {because.length > 0 && (
        <details class="because" open={open}>
          <summary>{`because of ${plural(because.length, "cause")}`}</summary>
          <List because={because} plurals={plurals} />
        </details>
      )}
    </li>
  );
}

/** An object, as a link if its address is known. */
function ObjectLink({ object, plurals }: { object: Named; plurals: Plurals }) {
  const href = objectPath({ ...object, plural: plurals(object) });
  return href ? <a href={href}>{objectName(object)}</a> : <>{objectName(object)}</>;
}

function Change({ step, plurals }: { step: Step; plurals: Plurals }) {
  const { paths } = step;
  const at = timestamp(step.at);
  return (
    <div class="change">
      <time class="when" dateTime={at} title={at}>
        {at.slice(11, 23)}
      </time>
      <div>
        <p>
          <ObjectLink object={step.object} plurals={plurals} /> {step.change}
          {paths?.length === 0 && " without a field"} by <By writer={step.by} />
          {step.resourceVersion && <span class="note">{` (resourceVersion ${step.resourceVersion})`}</span>}
        </p>
        {paths && paths.length > 0 && (
          <ul class="fields" aria-label="Fields">
            {paths.map((path) => (
              <li key={path}>
                <code>{path}</code>
              </li>
            ))}
          </ul>
        )}
        {typeof step.by === "object" && "plugin" in step.by && <Reconciled writer={step.by.plugin} plurals={plurals} />}
      </div>
    </div>
  );
}

function By({ writer }: { writer: Writer }) {
  if (writer === "hiddenPlugin") return <>a Plugin that you may not get</>;
  if ("outside" in writer) return <>{describeManagers(writer.outside.managers)}</>;
  const { plugin, controller } = writer.plugin;
  return (
    <>
      Plugin <a href={pluginPath(plugin)}>{plugin}</a>, controller {controller}
    </>
  );
}

/** The reconcile that wrote. */
function Reconciled({ writer, plurals }: { writer: PluginWriter; plurals: Plurals }) {
  return (
    <details class="note">
      <summary>
        {writer.verb} in reconcile {writer.reconcile} of {objectName(writer.object)}
      </summary>
      <p>
        of <ObjectLink object={writer.object} plurals={plurals} />, as {writer.serviceAccount}, code <code title={writer.digest}>{`sha256:${shortDigest(writer.digest)}`}</code>
        {writer.reads.length > 0 && `, after ${describeReads(writer.reads)}`}
      </p>
    </details>
  );
}

function List({ because, plurals }: { because: Because[]; plurals: Plurals }) {
  return (
    <ul>
      {because.map((cause, i) => (
        <li key={i}>
          <Cause because={cause} plurals={plurals} />
        </li>
      ))}
    </ul>
  );
}

function Cause({ because, plurals }: { because: Because; plurals: Plurals }) {
  if (typeof because === "object" && "change" in because) {
    const { because: further = [] } = because.change;
    return (
      <>
        <Change step={because.change} plurals={plurals} />
        {further.length > 0 && (
          <div class="because">
            <p class="note">because of</p>
            <List because={further} plurals={plurals} />
          </div>
        )}
      </>
    );
  }
  const { before, object, after } = describeCause(because);
  return (
    <p class="change">
      <span class="when" aria-hidden="true" />
      <span>
        {before}
        {object && <ObjectLink object={object} plurals={plurals} />} {after}
      </span>
    </p>
  );
}
