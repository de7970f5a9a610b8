// The YAML of an object, with a button that copies it.

import { useMemo, useState } from "preact/hooks";
import { chunks, yamlLines } from "../model/yaml.ts";

/** Lines that the browser lays out together; parts out of sight are not laid out. */
const PART = 100;
/** The number of parts that are always laid out. */
const FEW = 5;

/** The YAML. */
export function Yaml({ yaml, cut }: { yaml: string; cut: boolean }) {
  const parts = useMemo(() => chunks(yamlLines(yaml), PART), [yaml]);
  return (
    <>
      {cut && <p class="warning">The object is larger than 256 KiB. The rest of its YAML is not shown.</p>}
      <pre class="yaml" tabIndex={0} aria-label="YAML">
        {parts.map((part, i) => (
          <code key={i} class={parts.length > FEW ? "lazy" : undefined} style={{ containIntrinsicBlockSize: `auto ${part.length * 1.25}rem` }}>
            {part.map((line) => [line.indent, line.key && <b>{line.key}</b>, line.rest, "\n"])}
          </code>
        ))}
      </pre>
    </>
  );
}

/** The button that copies a text. */
export function CopyButton({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      setSaid("The browser does not allow it");
    }
    setTimeout(() => setSaid(""), 2000);
  };
  return (
    <>
      <span role="status" class="note">
        {said}
      </span>
      <button type="button" onClick={() => void copy()}>
        Copy
      </button>
    </>
  );
}
