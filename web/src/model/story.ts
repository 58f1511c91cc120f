/**
 * Story of a loss: the events that lead from a lost packet to the delivery of its message at one receiver.
 *
 * The events are the ones about this message at the receiver, at the nodes on its path from the source, and at the
 * nodes that repair it.
 */
import type { Run } from "./run.ts";
import { lossTime } from "./scene.ts";

export type Stage = "lost" | "found" | "requested" | "repair" | "received" | "delivered" | "abandoned";

export interface Step {
  event: number;
  /** Time at which the step is seen, ns. */
  time: number;
  stage: Stage;
  text: string;
}

export interface Story {
  loss: number;
  message: number | undefined;
  /** Index of the receiver. */
  receiver: number;
  /** Receivers that this loss may concern, by index. */
  receivers: number[];
  steps: Step[];
  /** Nodes from the source to the receiver. */
  path: number[];
}

const MAX_STEPS = 80;
const MAX_RECEIVERS = 200;

/** Follows a loss at `receiver`, or at the first receiver that it concerns. */
export function followLoss(run: Run, loss: number, receiver?: number): Story {
  const receivers = receiversOf(run, loss);
  const chosen = receiver ?? receivers[0] ?? run.nodeOf(loss);
  const message = run.message(loss);
  const path = run.topology.path(chosen);
  const steps = message === undefined ? [stepOf(run, loss, "lost")] : stepsOf(run, loss, message, chosen, new Set(path));
  return { loss, message, receiver: chosen, receivers, steps, path };
}

/** Receivers below the link of a loss; without a link, the one that lost the packet, or all. */
export function receiversOf(run: Run, loss: number): number[] {
  const { topology } = run;
  const other = run.otherOf(loss);
  const isReceiver = (node: number): boolean => topology.nodes[node]?.role !== "router";
  if (other >= 0 && topology.nodes[other]!.role === "receiver") return [other];
  if (other < 0) return topology.nodes.flatMap((node, at) => (node.role === "receiver" ? [at] : [])).slice(0, MAX_RECEIVERS);
  const below: number[] = [];
  const inside = new Set([other]);
  for (const node of topology.order) {
    if (inside.has(topology.parent[node]!)) inside.add(node);
    if (inside.has(node) && isReceiver(node) && below.length < MAX_RECEIVERS) below.push(node);
  }
  return below;
}

function stepsOf(run: Run, loss: number, message: number, receiver: number, path: ReadonlySet<number>): Step[] {
  const { columns, codes } = run;
  const steps = [stepOf(run, loss, "lost")];
  const chain = causes(run, loss, message, receiver);
  const isPart = (event: number): boolean => chain.size === 0 || columns.link[event]! < 0 || columns.event[event] !== codes.frame_sent || chain.has(event);
  // An event of the frame that was lost may stand before the loss, at the same time.
  for (let event = loss + 1; event < run.count && steps.length < MAX_STEPS; event += 1) {
    if (run.message(event) !== message) continue;
    const stage = chain.has(event) ? (run.kindOf(event) === "request" ? "requested" : "repair") : stageOf(run, event, receiver, path);
    if (!stage || !isPart(event)) continue;
    const last = steps.at(-1)!;
    // Copies of one packet to several links are one step.
    const isCopy = columns.event[last.event] === codes.frame_sent && columns.event[event] === codes.frame_sent
      && columns.time[last.event] === columns.time[event] && columns.node[last.event] === columns.node[event]
      && columns.packet[last.event] === columns.packet[event];
    if (isCopy) continue;
    steps.push(stepOf(run, event, stage));
    if (stage === "delivered" || stage === "abandoned") break;
  }
  return steps.sort((a, b) => a.time - b.time);
}

/**
 * Frames that brought the message to the receiver, from the node that repaired it, and the request to that node: each
 * one arrives where and before the next one leaves. Empty where the network has no links, or nothing is repaired.
 */
function causes(run: Run, loss: number, message: number, receiver: number): Set<number> {
  const { columns, codes, topology } = run;
  const frames: { event: number; from: number; to: number }[] = [];
  for (let event = loss + 1; event < run.count; event += 1) {
    if (columns.message[event] !== message) continue;
    if (columns.event[event] === codes.delivered && run.nodeOf(event) === receiver) break;
    if (columns.event[event] !== codes.frame_sent || run.lossOf[event]! > 0) continue;
    const [from, to] = topology.ends(columns.link[event]!);
    if (from >= 0) frames.push({ event, from, to });
  }
  const chain = new Set<number>();
  /** Follows frames back from the one that arrives at `node` last before `time`; returns the node of the first one. */
  const back = (node: number, time: number, isKind: (event: number) => boolean): { node: number; time: number } | undefined => {
    let [at, before, found] = [node, time, false];
    for (let length = 0; length < topology.nodes.length; length += 1) {
      const frame = frames.findLast(({ event, to }) => to === at && columns.arrival[event]! <= before + 1 && isKind(event) && !chain.has(event));
      if (!frame) break;
      found = true;
      chain.add(frame.event);
      [at, before] = [frame.from, columns.time[frame.event]!];
    }
    return found ? { node: at, time: before } : undefined;
  };
  const isMessage = (event: number): boolean => run.kindOf(event) === "repair" || run.kindOf(event) === "data";
  const repairer = back(receiver, Infinity, isMessage);
  if (repairer) back(repairer.node, repairer.time, (event) => run.kindOf(event) === "request");
  return chain;
}

function stageOf(run: Run, event: number, receiver: number, path: ReadonlySet<number>): Stage | undefined {
  const { columns, codes } = run;
  const code = columns.event[event]!;
  const node = run.nodeOf(event);
  const kind = run.kindOf(event);
  if (node === receiver) {
    if (code === codes.loss_found) return "found";
    if (code === codes.requested || code === codes.request_suppressed) return "requested";
    if (code === codes.loss_final) return "abandoned";
    if (code === codes.delivered) return "delivered";
    if (code === codes.loss_repaired) return "received";
    if (code === codes.received && (kind === "data" || kind === "repair")) return "received";
    if (code === codes.received) return "requested";
  }
  if (code === codes.frame_lost) {
    const isOnPath = path.has(node) || path.has(run.otherOf(event));
    return isOnPath ? "lost" : undefined;
  }
  if (code === codes.repair_sent || (code === codes.forwarded && node !== receiver)) return "repair";
  if (code === codes.completed) return undefined;
  if (code !== codes.frame_sent) return undefined;
  const [from, to] = run.topology.ends(columns.link[event]!);
  if (from < 0) return kind === "repair" ? "repair" : kind === "request" ? "requested" : undefined;
  if (!path.has(from) || !path.has(to)) return undefined;
  if (kind === "repair") return "repair";
  return kind === "request" ? "requested" : undefined;
}

function stepOf(run: Run, event: number, stage: Stage): Step {
  const { columns, codes } = run;
  const frame = run.lossOf[event]! - 1;
  const isLoss = columns.event[event] === codes.frame_lost;
  const time = isLoss && frame >= 0 && columns.link[event]! >= 0 ? lossTime(run, frame) : columns.time[event]!;
  return { event, time, stage, text: describe(run, event) };
}

/** One sentence about an event. */
export function describe(run: Run, event: number): string {
  const { codes, columns, topology } = run;
  const code = columns.event[event]!;
  const node = topology.label(run.nodeOf(event));
  const packet = run.packetName(event).toUpperCase();
  const number = run.message(event);
  const message = number === undefined ? "" : ` ${number}`;
  const other = topology.label(run.otherOf(event));
  const [from, to] = topology.ends(columns.link[event]!);
  const link = from < 0 ? "" : `${topology.label(from)} → ${topology.label(to)}`;
  switch (code) {
    case codes.frame_lost:
      if (link) return `The link ${link} loses ${packet || "a packet"}${message}.`;
      return run.otherOf(event) >= 0 ? `Node ${other} loses ${packet || "a packet"}${message} on arrival.` : `The interface of node ${node} loses ${packet || "a packet"}${message}.`;
    case codes.frame_sent: return link ? `${packet || "A packet"}${message} goes from ${link}.` : `Node ${node} sends ${packet || "a packet"}${message}.`;
    case codes.frame_discarded: return `A full queue discards ${packet || "a packet"}${message}${link ? ` for ${link}` : ` of node ${node}`}.`;
    case codes.loss_found: return `Node ${node} finds that message${message} is missing.`;
    case codes.requested: return `Node ${node} requests message${message}.`;
    case codes.request_suppressed: return `Node ${node} suppresses its request for message${message}.`;
    case codes.repair_sent: return `Node ${node} sends message${message} again.`;
    case codes.repair_needed: return `Node ${node} repeats because member ${other} has not acknowledged.`;
    case codes.forwarded: return `Node ${node} passes on message${message}.`;
    case codes.loss_repaired: return `Node ${node} receives the repair of message${message}.`;
    case codes.loss_final: return `Node ${node} abandons message${message}.`;
    case codes.delivered: return `Node ${node} delivers message${message}.`;
    case codes.received: return `Node ${node} receives ${packet || "a packet"}${message}.`;
    case codes.control_sent: return `Node ${node} sends ${packet || "a packet"}${message}.`;
    case codes.offered: return `The application of node ${node} offers message${message}.`;
    case codes.sent: return `Node ${node} sends message${message} for the first time.`;
    case codes.completed: return `Node ${node} is done with message${message}: ${run.text(event)}.`;
    case codes.timer_armed: return `Node ${node} arms the timer ${run.text(event)}.`;
    case codes.timer_fired: return `The timer ${run.text(event)} of node ${node} fires.`;
    case codes.state_changed: return `Node ${node} enters the state ${run.text(event)}.`;
    case codes.dropped: return `Node ${node} drops a packet: ${run.text(event).replaceAll("_", " ")}.`;
    case codes.member_joined: return `Node ${node} admits member ${other}.`;
    case codes.member_lost: return `Node ${node} expels member ${other}.`;
    case codes.collision: return `${run.framesOf(event) || "Several"} frames collide at node ${node}.`;
    case codes.note: return `Node ${node}: ${run.text(event)}`;
    default: return `Node ${node}: ${run.eventName(event).replaceAll("_", " ")}${message}`;
  }
}
