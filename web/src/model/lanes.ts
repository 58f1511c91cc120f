/** Nodes of the time–sequence diagram, from left to right. */
import type { Run } from "./run.ts";
import { type Story, receiversOf } from "./story.ts";
import type { Selection } from "./selection.ts";

/**
 * Chooses at most `most` nodes: the path of a loss that is followed; otherwise the selected node with its path, then
 * the others from the source outwards.
 */
export function chooseLanes(run: Run, story: Story | null, selection: Selection | null, most: number): number[] {
  const { topology } = run;
  const chosen = new Set<number>();
  const add = (node: number): void => {
    if (node >= 0 && chosen.size < most) chosen.add(node);
  };
  add(topology.source);
  if (story) {
    for (const node of story.path) add(node);
    for (const { event } of story.steps) {
      add(run.nodeOf(event));
      const [from, to] = topology.ends(run.columns.link[event]!);
      add(from);
      add(to);
    }
  }
  if (selection?.kind === "node") for (const node of topology.path(selection.node)) add(node);
  if (selection?.kind === "event") for (const node of topology.path(run.nodeOf(selection.event))) add(node);
  // Without a choice of the reader, the first loss is what there is to see.
  const loss = run.losses[0];
  if (!story && !selection && loss !== undefined) {
    for (const receiver of receiversOf(run, loss).slice(0, 2)) for (const node of topology.path(receiver)) add(node);
  }
  const isRouted = topology.network.links.length > 0 && topology.nodes.length > most;
  // In a large network, the receivers beside the source say more than the routers between.
  if (!story || chosen.size < 3) for (const node of isRouted ? firstBranch(run) : topology.order) add(node);
  for (const node of topology.nodes.keys()) if (topology.network.links.length === 0) add(node);
  return inOrder(run, chosen);
}

/** Nodes depth first, so that the first lanes are a path and its neighbours. */
function firstBranch(run: Run): number[] {
  const { topology } = run;
  const children = new Map<number, number[]>();
  for (const node of topology.order) {
    const parent = topology.parent[node]!;
    if (parent < 0) continue;
    const list = children.get(parent);
    if (list) list.push(node);
    else children.set(parent, [node]);
  }
  const result: number[] = [];
  const stack = [topology.source];
  while (stack.length > 0 && result.length < 64) {
    const node = stack.pop()!;
    result.push(node);
    stack.push(...[...(children.get(node) ?? [])].reverse());
  }
  return result;
}

/** Nodes in depth-first order, so that few arrows cross lanes. */
function inOrder(run: Run, chosen: ReadonlySet<number>): number[] {
  const { topology } = run;
  if (topology.network.links.length === 0) return [...chosen].sort((a, b) => Number(b === topology.source) - Number(a === topology.source) || a - b);
  const key = (node: number): number[] => topology.path(node);
  return [...chosen].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    for (let at = 0; at < Math.min(left.length, right.length); at += 1) if (left[at] !== right[at]) return left[at]! - right[at]!;
    return left.length - right.length;
  });
}
