/** Exports: the network or the view below it as PNG or SVG, and a short animation. */
import { paintOn } from "../render/canvas-painter.ts";
import { SvgPainter } from "../render/svg-painter.ts";
import { download, h } from "./dom.ts";
import type { Stage } from "./stage.ts";
import type { State } from "./state.ts";
import type { View } from "./view.ts";

/** Longest animation, s. */
const ANIMATION_SECONDS = 8;

function fileName(state: State, ending: string): string {
  const name = (state.run?.header.title ?? "carillon").replaceAll(/[^\w.-]+/g, "-").replaceAll(/^-|-$/g, "");
  return `${name || "carillon"}-${Math.round(state.time / 1e3)}us.${ending}`;
}

export function exportSvg(state: State, source: Stage | View, width: number, height: number): string {
  const painter = new SvgPainter(width, height, state.theme.background);
  source.paint?.(painter);
  const text = painter.document(state.run?.header.title ?? "Carillon");
  download(fileName(state, "svg"), new Blob([text], { type: "image/svg+xml" }));
  return text;
}

export function exportPng(state: State, source: Stage | View, width: number, height: number): void {
  const canvas = h("canvas", { style: `position:fixed;left:-9999px;width:${width}px;height:${height}px` });
  document.body.append(canvas);
  source.paint?.(paintOn(canvas, state.theme.background));
  canvas.toBlob((blob) => {
    if (blob) download(fileName(state, "png"), blob);
    canvas.remove();
  });
}

/** Plays from the clock on, and records the network for a few seconds. Rejects where the browser cannot record. */
export async function exportAnimation(state: State, canvas: HTMLCanvasElement): Promise<Blob> {
  if (typeof MediaRecorder === "undefined" || !canvas.captureStream) throw new Error("this browser cannot record an animation");
  const type = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm", "video/mp4"].find((candidate) => MediaRecorder.isTypeSupported(candidate));
  if (!type) throw new Error("this browser cannot record an animation");
  const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: type, videoBitsPerSecond: 4_000_000 });
  const parts: Blob[] = [];
  recorder.addEventListener("dataavailable", ({ data }) => parts.push(data));
  const stopped = new Promise<void>((resolve) => recorder.addEventListener("stop", () => resolve()));
  recorder.start();
  state.play(true);
  const begin = performance.now();
  await new Promise<void>((resolve) => {
    const wait = (): void => {
      if (!state.playing || performance.now() - begin > ANIMATION_SECONDS * 1000) resolve();
      else setTimeout(wait, 50);
    };
    wait();
  });
  state.play(false);
  recorder.stop();
  await stopped;
  const blob = new Blob(parts, { type });
  download(fileName(state, type.includes("mp4") ? "mp4" : "webm"), blob);
  return blob;
}
