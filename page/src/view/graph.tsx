// An object with its owners and children, as links in a drawing.

import { useState } from "preact/hooks";
import { fitted, layout, NODE_HEIGHT, type Node } from "../model/graph.ts";
import { HEALTH_WORDS } from "../model/health.ts";
import { objectPath } from "../model/route.ts";
import { count } from "../model/units.ts";
import { Shape } from "./state.tsx";
import { useWidth } from "./use_width.ts";
import type { ObjectLink } from "../api/types.ts";

/** Children that are drawn before the button for all is pressed. */
const FEW = 12;
/** The width of a character of the node's font, in pixels. */
const CHARACTER = 7;
const ORDER = ["bad", "progressing", "unknown", "ok"];

function order(link: ObjectLink): number {
  return ORDER.indexOf(link.health ?? "unknown");
}

/** The drawing. */
export function Graph(props: { owners: ObjectLink[]; self: ObjectLink; children: ObjectLink[] }) {
  const { ref, width } = useWidth();
  const [all, setAll] = useState(false);
  const sorted = [...props.children].sort((a, b) => order(a) - order(b) || (a.kind + a.name < b.kind + b.name ? -1 : 1));
  const shown = all ? sorted : sorted.slice(0, FEW);
  const drawn = layout(props.owners, props.self, shown, width || 300);
  return (
    <div class="graph" ref={ref}>
      {width > 0 && (
        <svg width={drawn.width} height={drawn.height} role="group" aria-label={`Owners: ${props.owners.length}. Children: ${props.children.length}.`}>
          {drawn.edges.map((edge) => (
            <path key={edge} class="edge" d={edge} />
          ))}
          {drawn.nodes.map((node) => (
            <GraphNode key={`${node.item.kind}/${node.item.namespace ?? ""}/${node.item.name}/${node.role}`} node={node} width={drawn.nodeWidth} />
          ))}
        </svg>
      )}
      {sorted.length > FEW && (
        <button type="button" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${count(sorted.length)} children`}
        </button>
      )}
    </div>
  );
}

function GraphNode({ node, width }: { node: Node<ObjectLink>; width: number }) {
  const { item } = node;
  const href = node.role === "self" ? undefined : objectPath(item);
  const room = Math.floor((width - 34) / CHARACTER);
  // The host does not read owners.
  const health = node.role === "owner" ? undefined : (item.health ?? "unknown");
  const content = (
    <>
      <title>{`${node.role === "self" ? "This object" : node.role === "owner" ? "Owner" : "Child"}: ${item.kind} ${item.namespace ? `${item.namespace}/` : ""}${item.name}${health ? `, ${HEALTH_WORDS[health]}` : ""}`}</title>
      <rect width={width} height={NODE_HEIGHT} rx="4" />
      {health && (
        <svg x="10" y="8" width="12" height="12">
          <Shape health={health} />
        </svg>
      )}
      <text class="kind" x={health ? 28 : 10} y="18">
        {fitted(item.kind, room)}
      </text>
      <text class="name" x={health ? 28 : 10} y="35">
        {fitted(item.name, room)}
      </text>
    </>
  );
  const place = `translate(${node.x} ${node.y})`;
  return href ? (
    <g transform={place}>
      <a class="node" href={href}>
        {content}
      </a>
    </g>
  ) : (
    <g class={`node ${node.role}`} transform={place}>
      {content}
    </g>
  );
}
