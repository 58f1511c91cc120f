/** Scene: everything that the network view shows at one time. A pure function of the run, the picture and the time. */
import type { Picture } from "../layout/picture.ts";
import type { PacketKind } from "../schema/header.ts";
import type { Run } from "./run.ts";

/** Packets that a scene contains at most; more would not be told apart. */
const MAX_PACKETS = 3000;
/** Time for which a loss or a collision stays in sight, in usual flights. */
const EFFECT_FLIGHTS = 1.2;
/** Place on its link where a lost packet leaves it. */
const LOSS_PLACE = 0.6;

/** Packet in flight. */
export interface ScenePacket {
  event: number;
  kind: PacketKind;
  /** Link of the picture; -1 on a bus and where the link is unknown. */
  link: number;
  /** Sending and receiving node of the picture; receiver -1 for all. */
  from: number;
  to: number;
  /** Places of the last and the first bit on the link, from 0 to 1. */
  tail: number;
  head: number;
  /** Number of packets that are drawn as this one. */
  count: number;
  /** True if the network loses it on this link. */
  lost: boolean;
}

/** Packet that falls off its link or at a node. */
export interface SceneDrop {
  event: number;
  kind: PacketKind | undefined;
  from: number;
  to: number;
  place: number;
  /** Part of the fall, from 0 to 1. */
  age: number;
}

/** Packets that wait at the end of a link. */
export interface SceneQueue {
  from: number;
  to: number;
  kinds: PacketKind[];
  count: number;
}

export interface SceneTimer {
  node: number;
  elapsed: number;
}

export interface SceneCollision {
  event: number;
  node: number;
  frames: number;
  age: number;
}

export interface Scene {
  time: number;
  packets: ScenePacket[];
  drops: SceneDrop[];
  queues: SceneQueue[];
  timers: SceneTimer[];
  collisions: SceneCollision[];
  /** Missing messages of each node of the picture, and whether they were requested. */
  missing: Float64Array;
  requested: Uint8Array;
  /** Deliveries and requests that just happened, by node of the picture: age from 0 to 1. */
  delivered: Map<number, number>;
  /** True if there were more packets than a scene contains. */
  crowded: boolean;
}

/** Time for which losses, collisions and deliveries stay in sight, ns. */
export function effectTime(run: Run): number {
  return run.usualFlight * EFFECT_FLIGHTS;
}

export function sceneAt(run: Run, picture: Picture, time: number): Scene {
  const scene: Scene = {
    time, packets: [], drops: [], queues: [], timers: [], collisions: [],
    missing: new Float64Array(picture.nodes.length),
    requested: new Uint8Array(picture.nodes.length),
    delivered: new Map(), crowded: false,
  };
  addPackets(scene, run, picture);
  addEffects(scene, run, picture);
  addNodes(scene, run, picture);
  run.timers.visit(time, ({ node, elapsed }) => {
    const at = picture.nodeOf[node] ?? -1;
    if (at >= 0 && picture.nodes[at]!.members.length === 1) scene.timers.push({ node: at, elapsed });
  });
  return scene;
}

function addPackets(scene: Scene, run: Run, picture: Picture): void {
  const { columns, codes, topology } = run;
  const { time } = scene;
  /** Last packet of each link, direction and type, so that copies to members of a group are one. */
  const merged = new Map<number, ScenePacket>();
  const queues = new Map<number, SceneQueue>();
  run.frames.visit(time, time, (event) => {
    if (!run.isFrame(event)) return true;
    const direction = columns.link[event]!;
    const kind = run.kindOf(event) ?? "control";
    let from = -1;
    let to = -1;
    let link = -1;
    if (direction >= 0) {
      link = picture.linkOf[direction >> 1] ?? -1;
      if (link < 0) return true;
      from = picture.nodeOf[topology.sender[direction]!] ?? -1;
      to = picture.nodeOf[topology.receiver[direction]!] ?? -1;
    } else {
      from = picture.nodeOf[run.nodeOf(event)] ?? -1;
      // Without links, a frame to one node is drawn towards it, and the answer of a receiver towards the source.
      const other = codes.frame_sent >= 0 && picture.shape !== "bus" ? run.otherOf(event) : -1;
      if (other >= 0) to = picture.nodeOf[other] ?? -1;
      else if (picture.shape !== "bus" && run.nodeOf(event) !== topology.source) to = picture.nodeOf[topology.source] ?? -1;
      if (to === from) return true;
    }
    if (from < 0) return true;
    const start = columns.start[event]!;
    if (time < start) {
      const key = from * (picture.nodes.length + 1) + to + 1;
      let queue = queues.get(key);
      if (!queue) queues.set(key, (queue = { from, to, kinds: [], count: 0 }));
      queue.count += 1;
      if (queue.kinds.length < 8) queue.kinds.unshift(kind);
      return true;
    }
    const [tail, head] = placeOf(run, event, time);
    const lost = run.lossOf[event]! > 0 && direction >= 0;
    if (lost && time >= lossTime(run, event)) return true;
    const isGroup = picture.nodes[from]!.members.length > 1 || (to >= 0 && picture.nodes[to]!.members.length > 1);
    if (isGroup) {
      const direction = picture.links[link]?.from === from ? 0 : 1;
      const key = ((link * 2 + direction) * 2 + (lost ? 1 : 0)) * 256 + columns.packet[event]!;
      const known = merged.get(key);
      if (known && columns.start[known.event] === start) {
        known.count += 1;
        return true;
      }
      merged.set(key, add());
      return true;
    }
    add();
    return scene.packets.length < MAX_PACKETS;

    function add(): ScenePacket {
      const packet = { event, kind, link, from, to, tail, head: lost ? Math.min(head, LOSS_PLACE) : head, count: 1, lost };
      scene.packets.push(packet);
      return packet;
    }
  });
  scene.crowded = scene.packets.length >= MAX_PACKETS;
  scene.packets.reverse();
  scene.queues = [...queues.values()];
}

/** Places of last and first bit of a frame on its link. */
function placeOf(run: Run, event: number, time: number): [number, number] {
  const { columns } = run;
  const start = columns.start[event]!;
  const flight = columns.arrival[event]! - start;
  const info = run.header.network.links[columns.link[event]! >> 1];
  const rate = info?.rate ?? null;
  // Without a rate, the packet is drawn as a point that travels all the time.
  const sending = Math.min(rate === null ? 0 : (columns.bytes[event]! * 8e9) / rate, flight);
  const latency = Math.max(flight - sending, flight * 0.02, 1e-9);
  const place = (elapsed: number): number => Math.min(1, Math.max(0, elapsed / latency));
  return [place(time - start - sending), place(time - start)];
}

function addEffects(scene: Scene, run: Run, picture: Picture): void {
  const { columns, codes, topology } = run;
  const { time } = scene;
  const span = effectTime(run);
  // A loss is recorded when its frame is sent, and is seen when the frame has reached the place of the loss.
  const first = run.firstAt(time - span - 2 * run.usualFlight);
  const last = run.countUntil(time);
  const from = Math.max(first, last - 20000);
  for (let event = from; event < last; event += 1) {
    const code = columns.event[event]!;
    if (code === codes.frame_lost || code === codes.frame_discarded) {
      const drop = dropOf(event);
      if (drop) scene.drops.push(drop);
    } else if (code === codes.collision || code === codes.delivered || code === codes.dropped) {
      const age = (time - columns.time[event]!) / span;
      const node = picture.nodeOf[run.nodeOf(event)] ?? -1;
      if (age >= 1 || node < 0) continue;
      if (code === codes.collision) scene.collisions.push({ event, node, frames: run.framesOf(event), age });
      else if (code === codes.delivered) scene.delivered.set(node, age);
      else if (run.text(event) === "implosion" || run.text(event) === "buffer_full") {
        scene.drops.push({ event, kind: run.kindOf(event), from: node, to: node, place: 0, age });
      }
    }
  }

  function dropOf(event: number): SceneDrop | undefined {
    const frame = run.lossOf[event]! - 1;
    const [a, b] = topology.ends(columns.link[event]!);
    const at = run.nodeOf(event);
    const other = run.otherOf(event);
    let begin = columns.time[event]!;
    let [start, end, place] = [at, at, 0];
    if (a >= 0 && b >= 0) {
      [start, end, place] = [a, b, code(event) === codes.frame_lost ? LOSS_PLACE : 0.06];
      if (frame >= 0 && place === LOSS_PLACE) begin = lossTime(run, frame);
    } else if (other >= 0) {
      [start, end] = [other, other];
      if (frame >= 0 && Number.isFinite(columns.arrival[frame]!)) begin = Math.max(begin, columns.arrival[frame]!);
    }
    const age = (time - begin) / span;
    const [from, to] = [picture.nodeOf[start] ?? -1, picture.nodeOf[end] ?? -1];
    if (age < 0 || age >= 1 || from < 0 || to < 0) return undefined;
    const kind = run.kindOf(event) ?? (frame >= 0 ? run.kindOf(frame) : undefined);
    return { event, kind, from, to, place, age };
  }

  function code(event: number): number {
    return columns.event[event]!;
  }
}

/** Time at which a frame has reached the place where it is lost. */
export function lossTime(run: Run, frame: number): number {
  const start = run.columns.start[frame]!;
  return start + (run.columns.arrival[frame]! - start) * LOSS_PLACE;
}

function addNodes(scene: Scene, run: Run, picture: Picture): void {
  for (const [at, node] of picture.nodes.entries()) {
    for (const member of node.members) {
      const status = run.missing.at(member, scene.time);
      scene.missing[at]! += status.missing > 0 && node.members.length > 1 ? 1 : status.missing;
      if (status.requested) scene.requested[at] = 1;
    }
  }
}
