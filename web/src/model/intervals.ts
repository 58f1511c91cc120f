/**
 * Index of intervals in the order of their begin, which finds the ones that contain a time.
 *
 * Blocks of intervals keep their latest end, so that a query skips the blocks that are over. Long-lived intervals are
 * found as well as short ones, and nothing is sorted.
 */
import { upperBound } from "./search.ts";

const BLOCK = 256;

export class Intervals {
  /** Latest end of each block. */
  private readonly latest: Float64Array;

  /** Takes begins in ascending order. An interval whose end is not a number is never found. */
  constructor(readonly begins: Float64Array, readonly ends: Float64Array) {
    this.latest = new Float64Array(Math.ceil(begins.length / BLOCK)).fill(-Infinity);
    for (let at = 0; at < ends.length; at += 1) {
      const block = (at / BLOCK) | 0;
      if (ends[at]! > this.latest[block]!) this.latest[block] = ends[at]!;
    }
  }

  /** Calls `visit` for each interval that begins at `to` or before, and ends after `from`, the latest begin first. */
  visit(from: number, to: number, visit: (at: number) => boolean | void): void {
    const end = upperBound(this.begins, to);
    for (let block = Math.ceil(end / BLOCK) - 1; block >= 0; block -= 1) {
      if (!(this.latest[block]! > from)) continue;
      for (let at = Math.min(end, (block + 1) * BLOCK) - 1; at >= block * BLOCK; at -= 1) {
        if (this.ends[at]! > from && visit(at) === false) return;
      }
    }
  }
}
