// The layout of an object's owners and children. Wide: three columns from left to right. Narrow: one column with indents. Pure, so
// that it is tested without a browser.

/** A node's place, in pixels, and the item that it shows. */
export interface Node<T> {
  item: T;
  x: number;
  y: number;
  role: "owner" | "self" | "child";
}

/** A laid-out graph. */
export interface Layout<T> {
  nodes: Node<T>[];
  /** The paths of the edges, as SVG path data. */
  edges: string[];
  width: number;
  height: number;
  nodeWidth: number;
}

/** The height of a node. */
export const NODE_HEIGHT = 44;
const GAP = 10;
const EDGE = 56;
const INDENT = 22;
const MIN_NODE = 200;
const MAX_NODE = 300;
/** The margin for the outline of a focused node. */
const MARGIN = 3;

/** Lays out the graph in a width. */
export function layout<T>(owners: T[], self: T, children: T[], width: number): Layout<T> {
  return width < 3 * MIN_NODE + 2 * EDGE ? stacked(owners, self, children, width) : sideBySide(owners, self, children, width);
}

function sideBySide<T>(owners: T[], self: T, children: T[], width: number): Layout<T> {
  const nodeWidth = Math.min(MAX_NODE, Math.floor((width - 2 * EDGE - 2 * MARGIN) / 3));
  const columns: [T[], Node<T>["role"]][] = [];
  if (owners.length > 0) columns.push([owners, "owner"]);
  columns.push([[self], "self"]);
  if (children.length > 0) columns.push([children, "child"]);
  const rows = Math.max(...columns.map(([items]) => items.length));
  const height = rows * NODE_HEIGHT + (rows - 1) * GAP + 2 * MARGIN;
  const nodes = columns.flatMap(([items, role], column) => {
    const own = items.length * NODE_HEIGHT + (items.length - 1) * GAP;
    const top = (height - own) / 2;
    return items.map((item, i) => ({ item, role, x: MARGIN + column * (nodeWidth + EDGE), y: top + i * (NODE_HEIGHT + GAP) }));
  });
  const middle = nodes.find((node) => node.role === "self");
  const edges = nodes.filter((node) => node !== middle && middle).map((node) => {
    const [from, to] = node.role === "owner" ? [node, middle] : [middle, node];
    return curve((from?.x ?? 0) + nodeWidth, (from?.y ?? 0) + NODE_HEIGHT / 2, to?.x ?? 0, (to?.y ?? 0) + NODE_HEIGHT / 2);
  });
  return { nodes, edges, width: 2 * MARGIN + columns.length * nodeWidth + (columns.length - 1) * EDGE, height, nodeWidth };
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

function stacked<T>(owners: T[], self: T, children: T[], width: number): Layout<T> {
  const levels: [T, Node<T>["role"], number][] = [
    ...owners.map((item): [T, Node<T>["role"], number] => [item, "owner", 0]),
    [self, "self", owners.length > 0 ? 1 : 0],
    ...children.map((item): [T, Node<T>["role"], number] => [item, "child", owners.length > 0 ? 2 : 1]),
  ];
  const deepest = Math.max(...levels.map(([, , level]) => level));
  const nodeWidth = Math.max(140, Math.min(MAX_NODE, width - deepest * INDENT - 2 * MARGIN));
  const nodes = levels.map(([item, role, level], i) => ({ item, role, x: MARGIN + level * INDENT, y: MARGIN + i * (NODE_HEIGHT + GAP) }));
  const middle = nodes[owners.length];
  const edges = nodes.filter((node) => node !== middle && middle).map((node) => {
    const [from, to] = node.role === "owner" ? [node, middle] : [middle, node];
    const x = (from?.x ?? 0) + INDENT / 2;
    return `M${x} ${(from?.y ?? 0) + NODE_HEIGHT}V${(to?.y ?? 0) + NODE_HEIGHT / 2}H${to?.x ?? 0}`;
  });
  return { nodes, edges, width: 2 * MARGIN + deepest * INDENT + nodeWidth, height: levels.length * (NODE_HEIGHT + GAP) - GAP + 2 * MARGIN, nodeWidth };
}

/** Returns a text that fits, with an ellipsis in its middle: the ends of generated names tell them apart. */
export function fitted(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const end = Math.floor((characters - 1) / 2);
  return `${text.slice(0, characters - 1 - end)}…${text.slice(text.length - end)}`;
}
