/** Axes of the plots: time to the right, values upwards. */
import { formatTime, ticks } from "../model/time.ts";
import type { Painter } from "../render/painter.ts";
import type { Theme } from "../render/palette.ts";

export interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Axes {
  from: number;
  to: number;
  low: number;
  high: number;
}

export function frameOf(painter: Painter): Frame {
  return { left: 58, right: painter.width - 14, top: 12, bottom: painter.height - 24 };
}

export function xOf(frame: Frame, axes: Axes, time: number): number {
  return frame.left + ((time - axes.from) / (axes.to - axes.from)) * (frame.right - frame.left);
}

export function yOf(frame: Frame, axes: Axes, value: number): number {
  return frame.bottom - ((value - axes.low) / Math.max(axes.high - axes.low, 1e-12)) * (frame.bottom - frame.top);
}

export function paintAxes(painter: Painter, frame: Frame, axes: Axes, unit: string, theme: Theme): void {
  for (const value of ticks(axes.low, axes.high, (frame.bottom - frame.top) / 32)) {
    const y = yOf(frame, axes, value);
    painter.line([frame.left, y, frame.right, y], { colour: theme.faint });
    painter.text(short(value), frame.left - 6, y, { colour: theme.muted, size: 10.5, align: "right" });
  }
  for (const time of ticks(axes.from, axes.to, (frame.right - frame.left) / 110)) {
    const x = xOf(frame, axes, time);
    painter.line([x, frame.top, x, frame.bottom], { colour: theme.faint });
    painter.text(formatTime(time, (axes.to - axes.from) / 40), x, frame.bottom + 11, { colour: theme.muted, size: 10.5, align: "center" });
  }
  painter.line([frame.left, frame.top, frame.left, frame.bottom, frame.right, frame.bottom], { colour: theme.line });
  painter.text(unit, frame.left + 6, frame.top + 2, { colour: theme.muted, size: 10.5 });
}

function short(value: number): string {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (Math.abs(value) >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
  return String(Number(value.toPrecision(4)));
}
