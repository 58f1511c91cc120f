/** Rows of a column by value: for each value the rows in ascending order, in two arrays. */
export class Groups {
  /** Rows, group after group. */
  readonly rows: Uint32Array;
  /** Position in `rows` of the first row of each group, and of the end. */
  readonly starts: Uint32Array;

  /** Groups rows by `key`, which is less than `groups`, or -1 for rows to leave out. */
  constructor(groups: number, count: number, key: (row: number) => number) {
    this.starts = new Uint32Array(groups + 1);
    for (let row = 0; row < count; row += 1) {
      const group = key(row);
      if (group >= 0) this.starts[group + 1]! += 1;
    }
    for (let group = 0; group < groups; group += 1) this.starts[group + 1]! += this.starts[group]!;
    this.rows = new Uint32Array(this.starts[groups]!);
    const next = this.starts.slice();
    for (let row = 0; row < count; row += 1) {
      const group = key(row);
      if (group < 0) continue;
      this.rows[next[group]!] = row;
      next[group]! += 1;
    }
  }

  /** Rows of a group, ascending. */
  of(group: number): Uint32Array {
    return this.rows.subarray(this.starts[group]!, this.starts[group + 1]!);
  }
}
