/** Worker that runs the simulator. */
import { Simulator } from "./simulator.ts";

let simulator: Promise<Simulator> | undefined;

self.onmessage = async ({ data }: MessageEvent<{ id: number; wasm?: Uint8Array; op?: number; request?: string }>) => {
  const { id } = data;
  try {
    if (data.wasm) simulator = Simulator.load(data.wasm);
    if (!simulator) throw new Error("the simulator is not loaded");
    const loaded = await simulator;
    if (data.op === undefined) {
      self.postMessage({ id });
      return;
    }
    const bytes = loaded.call(data.op, data.request ?? "");
    (self as unknown as { postMessage(message: unknown, transfer: Transferable[]): void }).postMessage({ id, bytes }, [bytes.buffer]);
  } catch (error) {
    self.postMessage({ id, error: (error as Error).message });
  }
};
