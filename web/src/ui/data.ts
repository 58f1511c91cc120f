/** Data inside the page: a recording or a scenario that `carillon view` wrote, and the simulator. */
import { fromBase64, inflate } from "./open.ts";

export interface PageData {
  recording?: string | null;
  scenario?: string | null;
  view?: { hash?: string; title?: string } | null;
}

export function pageData(): PageData | undefined {
  const script = document.getElementById("carillon-data");
  if (!script?.textContent) return undefined;
  const data = JSON.parse(script.textContent) as PageData;
  script.remove();
  return data;
}

/** Bytes of the simulator, if the page has it. */
export async function simulatorBytes(): Promise<Uint8Array | undefined> {
  const script = document.getElementById("carillon-wasm");
  if (!script?.textContent) return undefined;
  return inflate(fromBase64(script.textContent));
}
