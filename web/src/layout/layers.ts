/** Layered layout of a tree: the source at the top, leaves side by side, each node above the middle of its children. */
import type { Picture } from "./picture.ts";

/** Room between the children of different nodes, in leaves. */
const GAP = 0.4;

export function layoutLayers(picture: Picture, root: number): void {
  const { nodes, links } = picture;
  const neighbours: number[][] = nodes.map(() => []);
  for (const { from, to } of links) {
    neighbours[from]!.push(to);
    neighbours[to]!.push(from);
  }
  const depth = new Int32Array(nodes.length).fill(-1);
  let leaf = 0;
  let deepest = 1;
  const place = (node: number, level: number): void => {
    depth[node] = level;
    deepest = Math.max(deepest, level);
    const children = neighbours[node]!.filter((child) => depth[child]! < 0);
    for (const child of children) if (depth[child]! < 0) place(child, level + 1);
    if (children.length === 0) {
      nodes[node]!.x = leaf;
      leaf += 1;
    } else {
      const xs = children.map((child) => nodes[child]!.x);
      nodes[node]!.x = (Math.min(...xs) + Math.max(...xs)) / 2;
      leaf += GAP;
    }
  };
  place(root, 0);
  for (const at of nodes.keys()) if (depth[at]! < 0) place(at, deepest);
  const low = Math.min(...nodes.map((node) => node.x));
  const wide = Math.max(...nodes.map((node) => node.x)) - low;
  for (const [at, node] of nodes.entries()) {
    node.x = wide > 0 ? (node.x - low) / wide : 0.5;
    node.y = depth[at]! / deepest;
  }
}
