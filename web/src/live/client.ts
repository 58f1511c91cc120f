/** Client of the simulator: in a worker, or on the main thread where the browser allows no worker in a file. */
import workerSource from "made:worker";
import { readRecording, type Recording } from "../schema/recording.ts";
import { OP, Simulator } from "./simulator.ts";

/** Parameter of a protocol, as the registry describes it. */
export interface Parameter {
  name: string;
  doc: string;
  default: string;
  type: "count" | "size" | "rate" | "span" | "probability" | "switch" | "choice";
  values: string;
  range?: [number, number];
  choices?: string[];
}

export interface Protocol {
  name: string;
  title: string;
  page: string;
  networks: string[];
  parameters: Parameter[];
}

export interface RunRequest {
  scenario: string;
  set: Record<string, string>;
  seed: number | null;
  files?: Record<string, string>;
  max_events: number;
}

type Call = (op: number, request: string) => Promise<Uint8Array>;

export class SimulatorClient {
  private constructor(private readonly call: Call, readonly protocols: Protocol[], readonly version: string) {}

  static async start(wasm: Uint8Array): Promise<SimulatorClient> {
    const call = await inWorker(wasm).catch(() => onMainThread(wasm));
    const decoder = new TextDecoder();
    const protocols = JSON.parse(decoder.decode(await call(OP.protocols, ""))) as Protocol[];
    return new SimulatorClient(call, protocols, decoder.decode(await call(OP.version, "")));
  }

  async run(request: RunRequest): Promise<Recording> {
    return readRecording(await this.call(OP.run, JSON.stringify(request)));
  }

  /** Trace in JSON lines, with the bytes that the command line writes. */
  async trace(request: RunRequest): Promise<Uint8Array> {
    return this.call(OP.trace, JSON.stringify(request));
  }
}

async function onMainThread(wasm: Uint8Array): Promise<Call> {
  const simulator = await Simulator.load(wasm);
  return async (op, request) => simulator.call(op, request);
}

/** Time in which a worker has to start, ms. */
const START_TIME = 10_000;

async function inWorker(wasm: Uint8Array): Promise<Call> {
  const worker = new Worker(URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" })));
  const waiting = new Map<number, { resolve: (bytes: Uint8Array) => void; reject: (error: Error) => void }>();
  let last = 0;
  worker.onmessage = ({ data }: MessageEvent<{ id: number; bytes?: Uint8Array; error?: string }>) => {
    const caller = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error !== undefined) caller?.reject(new Error(data.error));
    else caller?.resolve(data.bytes ?? new Uint8Array());
  };
  const send = (message: object): Promise<Uint8Array> => new Promise((resolve, reject) => {
    last += 1;
    waiting.set(last, { resolve, reject });
    worker.postMessage({ ...message, id: last });
  });
  await new Promise<void>((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message));
    setTimeout(() => reject(new Error("the worker does not start")), START_TIME);
    send({ wasm }).then(() => resolve(), reject);
  });
  return (op, request) => send({ op, request });
}
