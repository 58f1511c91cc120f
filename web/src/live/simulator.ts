/** Simulator: the module in WebAssembly, which takes requests in JSON and answers with bytes. */

export const OP = { protocols: 0, run: 1, trace: 2, version: 3 } as const;

interface Exports {
  memory: WebAssembly.Memory;
  carillon_alloc(length: number): number;
  carillon_free(pointer: number, length: number): void;
  carillon_call(op: number, pointer: number, length: number): number;
}

export class Simulator {
  private constructor(private readonly module: WebAssembly.Module, private exports: Exports) {}

  static async load(wasm: Uint8Array): Promise<Simulator> {
    const module = await WebAssembly.compile(wasm as BufferSource);
    return new Simulator(module, await instantiate(module));
  }

  /** Calls an operation. Throws the error that the simulator answers. */
  call(op: number, request: string): Uint8Array {
    try {
      return this.callOnce(op, request);
    } catch (error) {
      // A trap leaves the instance in an unknown state.
      if (error instanceof WebAssembly.RuntimeError) {
        this.exports = new WebAssembly.Instance(this.module, {}).exports as unknown as Exports;
        throw new Error(`the simulator stopped: ${error.message}`);
      }
      throw error;
    }
  }

  private callOnce(op: number, request: string): Uint8Array {
    const bytes = new TextEncoder().encode(request);
    const { exports } = this;
    const input = exports.carillon_alloc(bytes.length);
    new Uint8Array(exports.memory.buffer, input, bytes.length).set(bytes);
    const answer = exports.carillon_call(op, input, bytes.length);
    exports.carillon_free(input, bytes.length);
    const view = new DataView(exports.memory.buffer);
    const status = view.getUint32(answer, true);
    const length = view.getUint32(answer + 4, true);
    const result = new Uint8Array(exports.memory.buffer, answer + 8, length).slice();
    exports.carillon_free(answer, length + 8);
    if (status !== 0) throw new Error(new TextDecoder().decode(result));
    return result;
  }
}

async function instantiate(module: WebAssembly.Module): Promise<Exports> {
  return (await WebAssembly.instantiate(module, {})).exports as unknown as Exports;
}
