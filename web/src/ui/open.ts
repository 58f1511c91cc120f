/** Files that are opened: recordings, and traces in JSON lines. */
import { Run } from "../model/run.ts";
import { readJsonLines } from "../schema/jsonl.ts";
import { isRecording, readRecording } from "../schema/recording.ts";

/** Run from the bytes of a file. */
export function runOf(bytes: Uint8Array, name: string): Run {
  if (isRecording(bytes)) return new Run(readRecording(bytes));
  const text = new TextDecoder().decode(bytes);
  return new Run(readJsonLines(text, name));
}

/** Bytes of text in base64. */
export function fromBase64(text: string): Uint8Array {
  const clean = text.trim();
  const binary = atob(clean);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Expands bytes in the format `deflate-raw`. */
export async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  return through(bytes, new DecompressionStream("deflate-raw"));
}

export async function deflate(bytes: Uint8Array): Promise<Uint8Array> {
  return through(bytes, new CompressionStream("deflate-raw"));
}

async function through(bytes: Uint8Array, stream: GenericTransformStream): Promise<Uint8Array> {
  const response = new Response(new Blob([bytes as BlobPart]).stream().pipeThrough(stream as ReadableWritablePair<Uint8Array, Uint8Array>));
  return new Uint8Array(await response.arrayBuffer());
}
