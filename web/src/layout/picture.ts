/**
 * Picture of a network: the nodes and links that are drawn, some of which stand for many.
 *
 * Coordinates are from 0 to 1 in both directions. Each layout gives the same picture for the same network.
 */
import type { Topology } from "../model/topology.ts";

export interface PictureNode {
  x: number;
  y: number;
  /** Nodes that it stands for, by index. */
  members: number[];
  label: string;
}

export interface PictureLink {
  from: number;
  to: number;
}

export interface Picture {
  shape: "layers" | "force" | "bus" | "star";
  nodes: PictureNode[];
  links: PictureLink[];
  /** Node of the picture for each node. */
  nodeOf: Int32Array;
  /** Link of the picture for each link; -1 within a group. */
  linkOf: Int32Array;
  /** True where a link has the opposite direction in the picture. */
  reversed: Uint8Array;
}

/** Picture in which `groups[i]` are the nodes that node i of the picture stands for, all at the origin. */
export function pictureOf(topology: Topology, groups: number[][], shape: Picture["shape"]): Picture {
  const nodeOf = new Int32Array(topology.nodes.length).fill(-1);
  const nodes = groups.map((members, at) => {
    for (const member of members) nodeOf[member] = at;
    const label = members.length === 1 ? topology.label(members[0]!) : `×${members.length}`;
    return { x: 0, y: 0, members, label };
  });
  const links: PictureLink[] = [];
  const linkOf = new Int32Array(topology.network.links.length).fill(-1);
  const reversed = new Uint8Array(linkOf.length);
  const known = new Map<number, number>();
  for (const [link, info] of topology.network.links.entries()) {
    const from = nodeOf[topology.indexOf(info.a)] ?? -1;
    const to = nodeOf[topology.indexOf(info.b)] ?? -1;
    if (from < 0 || to < 0 || from === to) continue;
    const key = Math.min(from, to) * groups.length + Math.max(from, to);
    let at = known.get(key);
    if (at === undefined) {
      at = links.push({ from, to }) - 1;
      known.set(key, at);
    }
    linkOf[link] = at;
    reversed[link] = links[at]!.from === from ? 0 : 1;
  }
  return { shape, nodes, links, nodeOf, linkOf, reversed };
}
