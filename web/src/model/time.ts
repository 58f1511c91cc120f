/** Times for people. */

/** Time in seconds, with as many digits as `step` needs. Both in ns. */
export function formatTime(time: number, step = 1000): string {
  const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(Math.max(step, 1)))));
  return `${(time / 1e9).toFixed(digits)} s`;
}

/** Span with a unit that fits: "12 ms". */
export function formatSpan(span: number): string {
  const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, unit] = units.find(([least]) => Math.abs(span) >= least) ?? [1, "ns"];
  return `${Number((span / size).toPrecision(3))} ${unit}`;
}

/** Steps of an axis: round values from `from` to `to`, about `count` of them. */
export function ticks(from: number, to: number, count: number): number[] {
  const rough = (to - from) / Math.max(count, 1);
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough)!;
  const result: number[] = [];
  for (let at = Math.ceil(from / step); at * step <= to; at += 1) result.push(at * step);
  return result;
}
