/** Searches in sorted columns. */

/** Number of the first value that is at least `value`, within `from` and `to`. */
export function lowerBound(values: ArrayLike<number>, value: number, from = 0, to = values.length): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Number of the first value that is greater than `value`, within `from` and `to`. */
export function upperBound(values: ArrayLike<number>, value: number, from = 0, to = values.length): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
