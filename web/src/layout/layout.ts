/** Layout that fits a network. */
import type { Topology } from "../model/topology.ts";
import { layoutBus } from "./bus.ts";
import { layoutForce } from "./force.ts";
import { groupNodes } from "./group.ts";
import { layoutLayers } from "./layers.ts";
import { type Picture, pictureOf } from "./picture.ts";
import { layoutStar } from "./star.ts";

/** Stations of a bus that are drawn one by one. */
const MAX_STATIONS = 48;

/** Picture of a network, in which the leaves of the nodes in `open` are drawn one by one. */
export function layout(topology: Topology, open: ReadonlySet<number> = new Set()): Picture {
  const { kind, links } = topology.network;
  if (kind === "lan") return bus(topology, open);
  if (kind === "star" || links.length === 0) return star(topology, open);
  const isTree = topology.isTree();
  const picture = pictureOf(topology, groupNodes(topology, open), isTree ? "layers" : "force");
  const root = Math.max(picture.nodeOf[topology.source] ?? 0, 0);
  if (isTree) layoutLayers(picture, root);
  else layoutForce(picture, root);
  return picture;
}

function bus(topology: Topology, open: ReadonlySet<number>): Picture {
  const groups = limited(topology, MAX_STATIONS, open);
  const picture = pictureOf(topology, groups, "bus");
  layoutBus(picture, picture.nodeOf[topology.source]!);
  return picture;
}

function star(topology: Topology, open: ReadonlySet<number>): Picture {
  const groups = limited(topology, MAX_STATIONS, open);
  const picture = pictureOf(topology, groups, "star");
  layoutStar(picture, picture.nodeOf[topology.source]!);
  return picture;
}

/** Each node for itself, up to a number; the last group has the others. */
function limited(topology: Topology, most: number, open: ReadonlySet<number>): number[][] {
  const all = topology.nodes.map((_, at) => at).sort((a, b) => Number(b === topology.source) - Number(a === topology.source) || a - b);
  if (all.length <= most || open.has(topology.source)) return all.map((node) => [node]);
  const size = Math.ceil((all.length - 1) / (most - 1));
  const groups = [[all[0]!]];
  for (let at = 1; at < all.length; at += size) groups.push(all.slice(at, at + size));
  return groups;
}
