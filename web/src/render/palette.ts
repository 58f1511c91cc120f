/** Colours, after Okabe and Ito's palette, which people with any colour vision can tell apart. */
import type { PacketKind } from "../schema/header.ts";

export interface Theme {
  background: string;
  panel: string;
  ink: string;
  muted: string;
  line: string;
  faint: string;
  select: string;
  kinds: Record<PacketKind, string>;
  lost: string;
  node: string;
  missing: string;
  requested: string;
  good: string;
}

const KINDS: Theme["kinds"] = { data: "#0072B2", repair: "#E69F00", request: "#D55E00", acknowledgment: "#009E73", control: "#CC79A7" };

export const LIGHT: Theme = {
  background: "#ffffff", panel: "#f6f7f9", ink: "#1d2530", muted: "#5b6675", line: "#c3cad4", faint: "#e6e9ee", select: "#7b3ff2",
  kinds: KINDS, lost: "#111111", node: "#ffffff", missing: "#F6C9A8", requested: "#D55E00", good: "#009E73",
};

export const DARK: Theme = {
  background: "#14181f", panel: "#1c222b", ink: "#e8ecf2", muted: "#a0abba", line: "#465163", faint: "#2a323e", select: "#b99bff",
  kinds: { ...KINDS, data: "#56B4E9" }, lost: "#ffffff", node: "#222a35", missing: "#6b3a1d", requested: "#D55E00", good: "#2cc59b",
};

/** Colours of states, which are told apart by their name as well. */
const STATES = ["#56B4E9", "#F0E442", "#009E73", "#CC79A7", "#E69F00", "#0072B2", "#D55E00", "#999999"];

/** Colour of the state with a number. */
export function stateColour(state: number): string {
  return STATES[state % STATES.length]!;
}

/** What people read for each kind. */
export const KIND_LABELS: Record<PacketKind, string> = {
  data: "data", repair: "repair", request: "request", acknowledgment: "acknowledgment", control: "control",
};
