/** Nodes and links by index, with the distribution tree from the source. */
import type { NetworkInfo, NodeInfo } from "../schema/header.ts";

export class Topology {
  readonly nodes: readonly NodeInfo[];
  /** Neighbours of each node: index of the node, and of the link. */
  readonly neighbours: { node: number; link: number }[][];
  /** Index of the node through which each node is reached from the source; -1 for the source and for unreachable nodes. */
  readonly parent: Int32Array;
  /** Nodes in the order of a breadth-first search from the source. */
  readonly order: number[];
  readonly source: number;
  /** Sending node of each link and direction. */
  readonly sender: Int32Array;
  /** Receiving node of each link and direction. */
  readonly receiver: Int32Array;
  private readonly index = new Map<number, number>();

  constructor(readonly network: NetworkInfo) {
    this.nodes = network.nodes;
    for (const [at, node] of network.nodes.entries()) this.index.set(node.id, at);
    this.neighbours = network.nodes.map(() => []);
    this.sender = new Int32Array(2 * network.links.length).fill(-1);
    this.receiver = new Int32Array(2 * network.links.length).fill(-1);
    for (const [link, { a, b }] of network.links.entries()) {
      const [from, to] = [this.indexOf(a), this.indexOf(b)];
      this.sender.set([from, to], 2 * link);
      this.receiver.set([to, from], 2 * link);
      if (from < 0 || to < 0) continue;
      this.neighbours[from]!.push({ node: to, link });
      this.neighbours[to]!.push({ node: from, link });
    }
    const source = network.nodes.findIndex((node) => node.role === "source");
    this.source = Math.max(source, 0);
    this.parent = new Int32Array(network.nodes.length).fill(-1);
    this.order = network.nodes.length > 0 ? this.search() : [];
  }

  /** Index of the node with a number, or -1. */
  indexOf(id: number): number {
    return this.index.get(id) ?? -1;
  }

  /** Indices of sending and receiving node of a link in a direction, or -1. */
  ends(link: number): [number, number] {
    return link < 0 ? [-1, -1] : [this.sender[link] ?? -1, this.receiver[link] ?? -1];
  }

  /** Name of a node for people. */
  label(node: number): string {
    const info = this.nodes[node];
    return info === undefined ? "?" : (info.name ?? String(info.id));
  }

  /** Nodes from the source to a node, both included. */
  path(node: number): number[] {
    const path = [node];
    while (this.parent[path[0]!]! >= 0) path.unshift(this.parent[path[0]!]!);
    return path;
  }

  /** True if every node is reached in exactly one way. */
  isTree(): boolean {
    return this.network.links.length === this.nodes.length - 1 && this.order.length === this.nodes.length;
  }

  private search(): number[] {
    const order = [this.source];
    const seen = new Uint8Array(this.nodes.length);
    seen[this.source] = 1;
    for (let at = 0; at < order.length; at += 1) {
      for (const { node } of this.neighbours[order[at]!]!) {
        if (seen[node]) continue;
        seen[node] = 1;
        this.parent[node] = order[at]!;
        order.push(node);
      }
    }
    return order;
  }
}
