/** Kinds of packets by name, for traces that do not state them. */
import type { PacketKind } from "./header.ts";

const KIND_OF_NAME: Record<string, PacketKind> = {
  data: "data", odata: "data", first: "data",
  repair: "repair", rdata: "repair", parity: "repair", retransmission: "repair", sum: "repair", symbol: "repair",
  nak: "request", nack: "request", request: "request", nnak: "request",
  ack: "acknowledgment", status: "acknowledgment", response: "acknowledgment", confirm: "acknowledgment", cntl: "acknowledgment",
};

/** Kind of a packet type, by its name in the protocol. */
export function kindOfName(name: string): PacketKind {
  return KIND_OF_NAME[name.toLowerCase().replace(/[-_ ]/g, "")] ?? "control";
}
