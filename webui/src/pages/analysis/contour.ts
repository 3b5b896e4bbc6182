/** Results between the trials that were run: means of all trials, nearer ones with more weight. Pure. */

export interface Spot {
  x: number;
  y: number;
  /** How good the trial is. */
  level: number;
}

const NEAR = 64; // square of the distance, in pixels, within which a trial alone decides

/**
 * The level at the middle of each cell of a grid, row by row. The weight of a trial is the inverse of the fourth
 * power of its distance in pixels, so that lines of equal level follow the trials closely.
 */
export function levelsBetween(
  spots: readonly Spot[],
  { wide, high, cell }: { wide: number; high: number; cell: number },
): Float64Array {
  const levels = new Float64Array(wide * high).fill(NaN);
  for (let row = 0; row < high; row += 1)
    for (let column = 0; column < wide; column += 1) {
      const [x, y] = [(column + 0.5) * cell, (row + 0.5) * cell];
      let [sum, weights] = [0, 0];
      for (const spot of spots) {
        const far = (spot.x - x) ** 2 + (spot.y - y) ** 2 + NEAR;
        const weight = 1 / (far * far);
        sum += weight * spot.level;
        weights += weight;
      }
      if (weights > 0) levels[row * wide + column] = sum / weights;
    }
  return levels;
}
