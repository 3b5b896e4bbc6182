/** `1 result`, `12,345 results`. */
export const counted = (number: number | string, one: string, many = `${one}s`): string =>
  `${typeof number === "number" ? number.toLocaleString("en") : number} ${String(number) === "1" ? one : many}`;
