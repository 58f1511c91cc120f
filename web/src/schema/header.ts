/** Header of a recording. */

export type PacketKind = "data" | "repair" | "request" | "acknowledgment" | "control";
export const KINDS: readonly PacketKind[] = ["data", "repair", "request", "acknowledgment", "control"];

export type NetworkKind = "lan" | "star" | "graph" | "net" | "real";
export type Role = "source" | "receiver" | "router" | "helper" | "node";

export interface NodeInfo {
  id: number;
  role: Role;
  name?: string;
}

export interface LinkInfo {
  a: number;
  b: number;
  /** bit/s */
  rate: number | null;
  latency_ns: number;
}

export interface NetworkInfo {
  kind: NetworkKind;
  /** Rate of a shared medium, bit/s. */
  bit_rate: number | null;
  nodes: NodeInfo[];
  links: LinkInfo[];
}

export interface Metric {
  name: string;
  unit: string;
  value: number;
}

export interface Header {
  title: string;
  version: string;
  protocol: string;
  seed: number | null;
  scenario: string | null;
  /** Text files that the scenario names. */
  files?: Record<string, string>;
  duration_ns: number;
  count: number;
  truncated: boolean;
  network: NetworkInfo;
  packets: { name: string; kind: PacketKind }[];
  events: string[];
  strings: string[];
  metrics: Metric[];
}
