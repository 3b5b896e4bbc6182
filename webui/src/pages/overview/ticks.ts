/** About `count` round numbers between low and high. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const found: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-12); at += 1)
    found.push(Number((at * step).toPrecision(12)));
  return found;
}
