/** Permanent link: scenario, settings and seed, compressed into the fragment of an address. */
import { deflate, fromBase64, inflate } from "../ui/open.ts";
import type { LiveState } from "./session.ts";

/** Longest text of a link that is read, so that no link fills the memory. */
const MAX_TEXT = 1 << 20;

export async function packState(state: LiveState): Promise<string> {
  const bytes = await deflate(new TextEncoder().encode(JSON.stringify(state)));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpackState(text: string): Promise<LiveState> {
  if (text.length > MAX_TEXT) throw new Error("the link is too long");
  const json = new TextDecoder().decode(await inflate(fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"))));
  const state = JSON.parse(json) as Partial<LiveState>;
  if (typeof state.scenario !== "string") throw new Error("the link has no scenario");
  const isText = (value: unknown): value is string => typeof value === "string";
  const set = Object.fromEntries(Object.entries(state.set ?? {}).filter(([, value]) => isText(value)));
  const files = Object.fromEntries(Object.entries(state.files ?? {}).filter(([, text]) => isText(text)));
  const isNumber = typeof state.seed === "number";
  return {
    scenario: state.scenario, set, seed: isNumber ? state.seed! : null, protocols: (state.protocols ?? []).filter(isText).slice(0, 4),
    ...(Object.keys(files).length > 0 ? { files } : {}),
  };
}
