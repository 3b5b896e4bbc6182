/** Writes packed columns, for tests. */
import type { PackedColumn } from "./packed";

const KINDS = { f32: Float32Array, f64: Float64Array, u8: Uint8Array, u16: Uint16Array, u32: Uint32Array };

export interface Written {
  name: PackedColumn["name"];
  type: keyof typeof KINDS;
  values: readonly number[];
  categories?: readonly unknown[];
}

export function pack(header: object, columns: readonly Written[]): ArrayBuffer {
  const padded = (size: number) => Math.ceil(size / 8) * 8;
  let offset = 0;
  const bodies = columns.map(({ values, type, ...rest }) => {
    const bytes = new Uint8Array(new KINDS[type](values).buffer);
    const described = { ...rest, type, offset, length: values.length };
    offset += padded(bytes.length);
    return { described, bytes };
  });
  const text = new TextEncoder().encode(
    JSON.stringify({ ...header, columns: bodies.map(({ described }) => described) }),
  );
  const begin = padded(4 + text.length);
  const answer = new Uint8Array(begin + offset);
  new DataView(answer.buffer).setUint32(0, text.length, true);
  answer.set(text, 4);
  for (const { described, bytes } of bodies) answer.set(bytes, begin + described.offset);
  return answer.buffer;
}
