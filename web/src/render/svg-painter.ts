/** Painter that collects SVG. */
import { FONT, MONO, type Painter, type Stroke, type TextStyle } from "./painter.ts";

export class SvgPainter implements Painter {
  private readonly parts: string[] = [];

  constructor(readonly width: number, readonly height: number, background: string) {
    this.rect(0, 0, width, height, background);
  }

  line(points: number[], stroke: Stroke): void {
    this.parts.push(`<polyline points="${pointList(points)}" fill="none"${strokeOf(stroke)}/>`);
  }

  segments(points: number[], stroke: Stroke): void {
    let path = "";
    for (let at = 0; at < points.length; at += 4) path += `M${short(points[at]!)} ${short(points[at + 1]!)}L${short(points[at + 2]!)} ${short(points[at + 3]!)}`;
    if (path) this.parts.push(`<path d="${path}" fill="none"${strokeOf(stroke)}/>`);
  }

  polygon(points: number[], fill: string | null, stroke?: Stroke, alpha?: number): void {
    this.parts.push(`<polygon points="${pointList(points)}"${fillOf(fill, alpha)}${strokeOf(stroke)}/>`);
  }

  rect(x: number, y: number, width: number, height: number, fill: string | null, stroke?: Stroke, alpha?: number): void {
    const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
    this.parts.push(`<rect ${place}${fillOf(fill, alpha)}${strokeOf(stroke)}/>`);
  }

  circle(x: number, y: number, radius: number, fill: string | null, stroke?: Stroke, alpha?: number): void {
    this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${short(radius)}"${fillOf(fill, alpha)}${strokeOf(stroke)}/>`);
  }

  arc(x: number, y: number, radius: number, turns: number, stroke: Stroke): void {
    const angle = 2 * Math.PI * Math.min(turns, 0.9999);
    const [endX, endY] = [x + radius * Math.sin(angle), y - radius * Math.cos(angle)];
    const path = `M${short(x)} ${short(y - radius)}A${short(radius)} ${short(radius)} 0 ${turns > 0.5 ? 1 : 0} 1 ${short(endX)} ${short(endY)}`;
    this.parts.push(`<path d="${path}" fill="none"${strokeOf(stroke)}/>`);
  }

  text(text: string, x: number, y: number, style: TextStyle): void {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    const font = `font-family="${style.mono ? MONO : FONT}" font-size="${style.size ?? 12}"${style.bold ? ' font-weight="600"' : ""}`;
    const alpha = style.alpha === undefined ? "" : ` opacity="${short(style.alpha)}"`;
    const place = `x="${short(x)}" y="${short(y)}" text-anchor="${anchor}" dominant-baseline="central"`;
    this.parts.push(`<text ${place} ${font} fill="${style.colour}"${alpha}>${escapeText(text)}</text>`);
  }

  /** The drawing as an SVG document. */
  document(title: string): string {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n<title>${escapeText(title)}</title>\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function pointList(points: number[]): string {
  const pairs: string[] = [];
  for (let at = 0; at < points.length; at += 2) pairs.push(`${short(points[at]!)},${short(points[at + 1]!)}`);
  return pairs.join(" ");
}

function fillOf(fill: string | null, alpha?: number): string {
  return fill === null ? ' fill="none"' : ` fill="${fill}"${alpha === undefined ? "" : ` fill-opacity="${short(alpha)}"`}`;
}

function strokeOf(stroke?: Stroke): string {
  if (!stroke) return "";
  const alpha = stroke.alpha === undefined ? "" : ` stroke-opacity="${short(stroke.alpha)}"`;
  const dash = stroke.dash ? ` stroke-dasharray="${stroke.dash.join(" ")}"` : "";
  return ` stroke="${stroke.colour}" stroke-width="${short(stroke.width ?? 1)}"${alpha}${dash}`;
}

function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
