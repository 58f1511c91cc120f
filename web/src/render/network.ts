/** Network view: draws a scene. */
import type { Picture } from "../layout/picture.ts";
import { KINDS } from "../schema/header.ts";
import type { Run } from "../model/run.ts";
import type { Scene, ScenePacket } from "../model/scene.ts";
import type { Selection } from "../model/selection.ts";
import { isSelectedEvent } from "../model/selection.ts";
import type { Painter, Stroke } from "./painter.ts";
import { type Theme, stateColour } from "./palette.ts";
import { drawSign } from "./shapes.ts";

/** Part of the network that is in sight. */
export interface Camera {
  zoom: number;
  x: number;
  y: number;
}

export interface NetworkOptions {
  theme: Theme;
  camera: Camera;
  selection: Selection | null;
  /** Nodes on the path of a loss that is followed, by index in the run. */
  path: ReadonlySet<number>;
  /** State of a node by index in the run, if the recording tells it. */
  stateOf: (node: number) => { name: string; code: number } | undefined;
}

interface NodeStatus {
  missing: number;
  requested: boolean;
  /** Number of the machine's state. */
  state?: number;
}

/** Room beside the network, left and right. */
const MARGIN = 46;
const AT_REST: NodeStatus = { missing: 0, requested: false };

/** Places on the screen. */
export class NetworkView {
  /** Centres of the nodes of the picture: x, y, radius. */
  readonly places: [number, number, number][];

  constructor(readonly picture: Picture, readonly width: number, readonly height: number, readonly camera: Camera, hasCaption = false) {
    const isBus = picture.shape === "bus";
    const marginX = width < 500 ? 24 : MARGIN;
    const [top, bottom] = isBus ? [0.2 * height, 0.78 * height] : [hasCaption ? 66 : 40, height - (height < 320 ? 40 : 76)];
    const isStar = picture.shape === "star";
    const side = Math.min(width - 2 * marginX, bottom - top);
    const isRing = isStar && picture.nodes.length > 2;
    const around = isRing ? (Math.PI * 0.75 * (side + Math.min(side * 1.5, width - 2 * marginX))) / 1.5 / (picture.nodes.length - 1) : Infinity;
    const radius = Math.max(2.5, Math.min(radiusOf(picture, width, height), around * 0.42));
    this.places = picture.nodes.map((node) => {
      let x = marginX + node.x * (width - 2 * marginX);
      let y = top + node.y * (bottom - top);
      if (isStar) {
        x = width / 2 + (node.x - 0.5) * Math.min(side * 1.5, width - 2 * marginX);
        y = (top + bottom) / 2 + (node.y - 0.5) * side;
      }
      const wide = node.members.length > 1 ? radius * 1.25 : radius;
      return [
        (x - width / 2) * camera.zoom + width / 2 + camera.x,
        (y - height / 2) * camera.zoom + height / 2 + camera.y,
        wide * Math.min(Math.max(camera.zoom, 0.6), 2),
      ];
    });
  }

  /** Height of the cable of a bus. */
  get busY(): number {
    return (0.49 * this.height - this.height / 2) * this.camera.zoom + this.height / 2 + this.camera.y;
  }

  /** Node of the picture at a point of the screen, or -1. */
  nodeAt(x: number, y: number): number {
    let best = -1;
    let least = Infinity;
    for (const [at, [nodeX, nodeY, radius]] of this.places.entries()) {
      const distance = Math.hypot(nodeX - x, nodeY - y);
      if (distance < Math.max(radius + 4, 9) && distance < least) [best, least] = [at, distance];
    }
    return best;
  }

  /** Packet of a scene at a point of the screen. */
  packetAt(scene: Scene, x: number, y: number): ScenePacket | undefined {
    let best: ScenePacket | undefined;
    let least = 10;
    for (const packet of scene.packets) {
      const [px, py] = this.centre(packet);
      const distance = Math.hypot(px - x, py - y);
      if (distance < least) [best, least] = [packet, distance];
    }
    return best;
  }

  /** Point on a link, between the edges of its nodes. */
  point(from: number, to: number, place: number): [number, number] {
    const [ax, ay, ar] = this.places[from]!;
    const [bx, by, br] = this.places[to]!;
    const distance = Math.hypot(bx - ax, by - ay) || 1;
    const at = Math.min(0.45, ar / distance) + Math.max(0.1, 1 - Math.min(0.45, ar / distance) - Math.min(0.45, br / distance)) * place;
    return [ax + (bx - ax) * at, ay + (by - ay) * at];
  }

  centre(packet: ScenePacket): [number, number] {
    if (packet.to >= 0) return this.point(packet.from, packet.to, (packet.head + packet.tail) / 2);
    const [x, y] = this.places[packet.from]!;
    return this.picture.shape === "bus" ? [x, y + (this.busY - y) * Math.min(1, packet.head * 3)] : [x, y];
  }

  /** Draws what stays the same while time passes: links and nodes at rest. */
  drawStill(painter: Painter, run: Run, options: NetworkOptions): void {
    if (this.picture.shape === "bus") this.drawCable(painter, options);
    else this.drawLinks(painter, options);
    for (const at of this.picture.nodes.keys()) this.drawNode(painter, run, at, options, AT_REST);
  }

  /** Draws what a scene shows on top of that. */
  drawScene(painter: Painter, run: Run, scene: Scene, options: NetworkOptions): void {
    if (this.picture.shape === "bus") this.drawFrames(painter, scene, options);
    this.drawPackets(painter, run, scene, options);
    this.drawQueues(painter, scene, options);
    this.drawNodes(painter, run, scene, options);
    this.drawDrops(painter, run, scene, options);
    this.drawCollisions(painter, scene, options);
  }

  private drawLinks(painter: Painter, { theme, path }: NetworkOptions): void {
    const { nodes } = this.picture;
    for (const { from, to } of this.picture.links) {
      const [ax, ay] = this.places[from]!;
      const [bx, by] = this.places[to]!;
      const onPath = nodes[from]!.members.some((node) => path.has(node)) && nodes[to]!.members.some((node) => path.has(node));
      painter.line([ax, ay, bx, by], onPath ? { colour: theme.select, width: 3, alpha: 0.45 } : { colour: theme.line, width: nodes.length > 100 ? 1 : 1.5 });
    }
  }

  /** Ends of the cable of a bus. */
  private get cable(): [number, number] {
    const xs = this.places.map(([x]) => x);
    return [Math.min(...xs) - 24, Math.max(...xs) + 24];
  }

  private drawCable(painter: Painter, { theme }: NetworkOptions): void {
    const [left, right] = this.cable;
    const y = this.busY;
    painter.line([left, y, right, y], { colour: theme.line, width: 6 });
    for (const [x, nodeY] of this.places) painter.line([x, nodeY, x, y], { colour: theme.line, width: 1.5 });
  }

  private drawFrames(painter: Painter, scene: Scene, { theme }: NetworkOptions): void {
    const [left, right] = this.cable;
    const y = this.busY;
    const edge = (nodeY: number, radius: number): number => nodeY + (nodeY < y ? radius : -radius);
    for (const packet of scene.packets) {
      const [x, centreY, radius] = this.places[packet.from]!;
      const nodeY = edge(centreY, radius);
      const colour = theme.kinds[packet.kind];
      // The frame goes down to the cable, along it to both ends, and up to the stations.
      const [down, along, up] = [packet.head * 4, packet.head * 2 - 0.5, packet.head * 4 - 3].map((part) => Math.min(1, Math.max(0, part))) as [number, number, number];
      painter.line([x, nodeY, x, nodeY + (y - nodeY) * down], { colour, width: 3 });
      if (along > 0) painter.line([x - (x - left) * along, y, x + (right - x) * along, y], { colour, width: 6, alpha: 0.85 });
      if (up <= 0) continue;
      for (const [at, [stationX, stationY, stationRadius]] of this.places.entries()) {
        if (at !== packet.from) painter.line([stationX, y, stationX, y + (edge(stationY, stationRadius) - y) * up], { colour, width: 3, alpha: 0.7 });
      }
    }
  }

  private drawPackets(painter: Painter, run: Run, scene: Scene, { theme, selection }: NetworkOptions): void {
    const isMany = scene.packets.length > 60;
    this.drawBodies(painter, scene, theme, isMany ? 3 : 5);
    for (const packet of scene.packets) {
      const [x, y] = this.centre(packet);
      const colour = theme.kinds[packet.kind];
      if (packet.to < 0 && this.picture.shape !== "bus") painter.circle(x, y, 10 + packet.head * 26, null, { colour, width: 2, alpha: 1 - packet.head });
      if (packet.to < 0 && this.picture.shape === "star") {
        for (const to of this.picture.nodes.keys()) if (to !== packet.from) drawSign(painter, packet.kind, ...this.point(packet.from, to, packet.head), 7, colour);
      }
      drawSign(painter, packet.kind, x, y, isMany ? 6 : 9, colour, isMany ? undefined : { colour: theme.background, width: 1 });
      if (packet.count > 1 && !isMany) painter.text(`×${packet.count}`, x + 9, y - 7, { colour: theme.muted, size: 10 });
      if (selection !== null && isSelectedEvent(run, selection, packet.event)) painter.circle(x, y, 10, null, { colour: theme.select, width: 2.5 });
    }
    if (scene.crowded) painter.text("More packets are in flight than are drawn", 12, 14, { colour: theme.muted, size: 11 });
  }

  /** Draws the length of each packet on its link, all packets of a kind in one stroke. */
  private drawBodies(painter: Painter, scene: Scene, theme: Theme, width: number): void {
    for (const kind of KINDS) {
      const points: number[] = [];
      for (const packet of scene.packets) {
        if (packet.kind === kind && packet.to >= 0 && packet.head > packet.tail) points.push(...this.point(packet.from, packet.to, packet.tail), ...this.point(packet.from, packet.to, packet.head));
      }
      painter.segments(points, { colour: theme.kinds[kind], width, alpha: 0.55 });
    }
  }

  private drawQueues(painter: Painter, scene: Scene, { theme }: NetworkOptions): void {
    for (const queue of scene.queues) {
      const [x, y, radius] = this.places[queue.from]!;
      const [farX, farY] = queue.to >= 0 ? this.places[queue.to]! : [x, this.busY];
      const distance = Math.hypot(farX - x, farY - y) || 1;
      const [dx, dy] = [(farX - x) / distance, (farY - y) / distance];
      const offset = radius + 7;
      // Beside the link, from the node outwards.
      const [baseX, baseY] = [x + dx * offset - dy * 9, y + dy * offset + dx * 9];
      for (const [at, kind] of queue.kinds.entries()) {
        painter.rect(baseX + dx * at * 6 - 2.5, baseY + dy * at * 6 - 2.5, 5, 5, theme.kinds[kind], { colour: theme.background, width: 0.5 });
      }
      if (queue.count > queue.kinds.length) {
        const at = queue.kinds.length + 1.2;
        painter.text(String(queue.count), baseX + dx * at * 6, baseY + dy * at * 6, { colour: theme.muted, size: 10, align: "center" });
      }
    }
  }

  /** Draws the nodes again that are not at rest. */
  private drawNodes(painter: Painter, run: Run, scene: Scene, options: NetworkOptions): void {
    const { theme, selection, path } = options;
    for (const [at, node] of this.picture.nodes.entries()) {
      const missing = scene.missing[at]!;
      const isSelected = selection?.kind === "node" && node.members.includes(selection.node);
      const onPath = path.size > 0 && node.members.some((member) => path.has(member));
      const state = node.members.length > 1 ? undefined : options.stateOf(node.members[0]!);
      const age = scene.delivered.get(at);
      if (missing > 0 || state) this.drawNode(painter, run, at, options, { missing, requested: scene.requested[at] === 1, ...(state ? { state: state.code } : {}) });
      const [x, y, radius] = this.places[at]!;
      if (age !== undefined && node.members.length === 1) painter.circle(x, y, radius + 2 + age * Math.min(8, radius * 0.6), null, { colour: theme.good, width: 2, alpha: (1 - age) * 0.9 });
      if (isSelected || onPath) painter.circle(x, y, radius + 5, null, { colour: theme.select, width: isSelected ? 3 : 2, ...(isSelected ? {} : { alpha: 0.6 }) });
    }
    for (const timer of scene.timers) {
      const [x, y, radius] = this.places[timer.node]!;
      painter.arc(x, y, radius + 4, 1 - timer.elapsed, { colour: theme.muted, width: 2.5 });
    }
  }

  private drawNode(painter: Painter, run: Run, at: number, { theme }: NetworkOptions, status: NodeStatus): void {
    const node = this.picture.nodes[at]!;
    const [x, y, radius] = this.places[at]!;
    const role = run.topology.nodes[node.members[0]!]!.role;
    const isGroup = node.members.length > 1;
    const isSmall = this.picture.nodes.length > 90;
    const fill = status.missing > 0 ? theme.missing : theme.node;
    const edge = status.requested ? { colour: theme.requested, width: 3 } : { colour: role === "source" ? theme.kinds.data : theme.ink, width: role === "source" ? 3 : 1.5 };
    if (isGroup) painter.circle(x + 3, y + 3, radius, theme.faint, { colour: theme.line });
    this.outline(painter, isGroup ? "group" : role, x, y, radius, fill, edge);
    if (status.state !== undefined && status.missing === 0) this.outline(painter, role, x, y, radius - 2, stateColour(status.state), undefined, 0.45);
    if (status.missing > 0 && !isSmall) painter.text(`−${status.missing}`, x, y + radius + 9, { colour: theme.requested, size: 11, align: "center", bold: true });
    if (!isSmall || isGroup) this.drawLabel(painter, node.label, x, y, radius, isGroup, theme);
  }

  /** Shape of a node by its role: routers are squares, helpers diamonds, all others circles. */
  private outline(painter: Painter, role: string, x: number, y: number, radius: number, fill: string, edge?: Stroke, alpha?: number): void {
    if (role === "router") painter.rect(x - radius * 0.85, y - radius * 0.85, radius * 1.7, radius * 1.7, fill, edge, alpha);
    else if (role === "helper") painter.polygon([x, y - radius * 1.2, x + radius * 1.2, y, x, y + radius * 1.2, x - radius * 1.2, y], fill, edge, alpha);
    else painter.circle(x, y, radius, fill, edge, alpha);
  }

  private drawLabel(painter: Painter, label: string, x: number, y: number, radius: number, isGroup: boolean, theme: Theme): void {
    if (radius < 7 && this.picture.shape === "star") return;
    const size = Math.min(isGroup ? 10.5 : 11, (radius * 2 - 2) / (label.length * 0.6));
    if (size >= 7.5) {
      painter.text(label, x, y + 0.5, { colour: theme.ink, size, align: "center" });
      return;
    }
    const above = this.picture.shape === "bus" ? y < this.busY : y < this.height * 0.25;
    painter.text(label, x, above ? y - radius - 10 : y + radius + (this.picture.shape === "bus" ? 11 : 22), { colour: theme.muted, size: 11, align: "center" });
  }

  private drawDrops(painter: Painter, run: Run, scene: Scene, { theme, selection }: NetworkOptions): void {
    for (const drop of scene.drops) {
      const [startX, startY] = this.point(drop.from, drop.to, drop.place);
      const alpha = 1 - drop.age * drop.age;
      const y = startY + drop.age * drop.age * 46 + (drop.from === drop.to ? 12 : 0);
      const x = startX + drop.age * 10;
      drawSign(painter, drop.kind, x, y, 9, drop.kind ? theme.kinds[drop.kind] : theme.muted, undefined, alpha);
      const cross = { colour: theme.lost, width: 2, alpha };
      painter.line([startX - 6, startY - 6, startX + 6, startY + 6], cross);
      painter.line([startX - 6, startY + 6, startX + 6, startY - 6], cross);
      if (selection && isSelectedEvent(run, selection, drop.event)) painter.circle(startX, startY, 12, null, { colour: theme.select, width: 2.5 });
    }
  }

  private drawCollisions(painter: Painter, scene: Scene, { theme }: NetworkOptions): void {
    for (const collision of scene.collisions) {
      const [x, nodeY] = this.places[collision.node]!;
      const y = this.picture.shape === "bus" ? this.busY : nodeY;
      const size = 9 + collision.age * 10;
      const points: number[] = [];
      for (let at = 0; at < 16; at += 1) {
        const radius = at % 2 === 0 ? size : size * 0.5;
        points.push(x + radius * Math.sin((at * Math.PI) / 8), y - radius * Math.cos((at * Math.PI) / 8));
      }
      painter.polygon(points, theme.kinds.request, { colour: theme.lost, width: 1 }, 1 - collision.age);
      if (collision.frames > 0) painter.text(String(collision.frames), x, y, { colour: "#ffffff", size: 10, align: "center", bold: true, alpha: 1 - collision.age });
    }
  }
}

function radiusOf(picture: Picture, width: number, height: number): number {
  const room = Math.sqrt((width * height) / Math.max(picture.nodes.length, 1));
  const inRow = picture.shape === "layers" ? rowRoom(picture, width - 2 * (width < 500 ? 24 : MARGIN)) : Infinity;
  return Math.max(2.5, Math.min(15, room * 0.16, inRow * (hasGroups(picture) ? 0.38 : 0.45)));
}

function hasGroups(picture: Picture): boolean {
  return picture.nodes.some(({ members }) => members.length > 1);
}

/** Least distance between neighbours of a row. */
function rowRoom(picture: Picture, width: number): number {
  const rows = new Map<number, number[]>();
  for (const { x, y } of picture.nodes) {
    const row = rows.get(y);
    if (row) row.push(x);
    else rows.set(y, [x]);
  }
  let least = Infinity;
  for (const row of rows.values()) {
    row.sort((a, b) => a - b);
    for (let at = 1; at < row.length; at += 1) least = Math.min(least, row[at]! - row[at - 1]!);
  }
  return least * width;
}
