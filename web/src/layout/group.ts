/** Groups of nodes that are drawn as one, so that a network of thousands stays readable. */
import type { Topology } from "../model/topology.ts";

/** Leaves of one parent that are drawn one by one. */
const MAX_LEAVES = 24;
/** Nodes of a picture. */
const MAX_NODES = 320;

/**
 * Groups the nodes of a network: first the leaves of a node that has many, then, while there are too many nodes, all
 * leaves of each node, and at last whole subtrees. The members of `open` are drawn one by one.
 */
export function groupNodes(topology: Topology, open: ReadonlySet<number> = new Set()): number[][] {
  const { order, nodes } = topology;
  const reached = new Set(order);
  const loose = nodes.map((_, at) => at).filter((at) => !reached.has(at));
  const depth = depths(topology);
  const deepest = order.reduce((max, node) => Math.max(max, depth[node]!), 0);
  for (let level = deepest + 1; ; level -= 1) {
    const groups = groupBelow(topology, depth, level, level <= deepest ? 1 : MAX_LEAVES, open);
    const all = loose.length > MAX_LEAVES ? [...groups, loose] : [...groups, ...loose.map((node) => [node])];
    if (all.length <= MAX_NODES || level <= 1) return all;
  }
}

/** Groups nodes at `level` and below by their ancestor above it, and leaves of nodes with more than `most` leaves. */
function groupBelow(topology: Topology, depth: Int32Array, level: number, most: number, open: ReadonlySet<number>): number[][] {
  const groups: number[][] = [];
  const leaves = new Map<number, number[]>();
  const below = new Map<number, number[]>();
  const anchor = new Int32Array(topology.nodes.length).fill(-1);
  const hasChild = new Uint8Array(topology.nodes.length);
  for (const node of topology.order) if (topology.parent[node]! >= 0) hasChild[topology.parent[node]!] = 1;
  for (const node of topology.order) {
    const up = topology.parent[node]!;
    if (depth[node]! >= level) {
      const top = up >= 0 && anchor[up]! >= 0 ? anchor[up]! : up;
      anchor[node] = top;
      push(below, top, node);
    } else if (!hasChild[node] && up >= 0) {
      push(leaves, up, node);
    } else {
      groups.push([node]);
    }
  }
  for (const [up, members] of [...leaves, ...below]) {
    const isGroup = members.length > (depth[members[0]!]! >= level ? most : MAX_LEAVES) && !open.has(up);
    if (isGroup) groups.push(members);
    else groups.push(...members.map((member) => [member]));
  }
  return groups;
}

function push(map: Map<number, number[]>, key: number, value: number): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function depths(topology: Topology): Int32Array {
  const depth = new Int32Array(topology.nodes.length);
  for (const node of topology.order) {
    const up = topology.parent[node]!;
    if (up >= 0) depth[node] = depth[up]! + 1;
  }
  return depth;
}
