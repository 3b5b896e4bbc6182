/**
 * Reads `application/vnd.nnimgr.columns`: a u32 with the length of a JSON header, the header, zeros up to a
 * multiple of 8, then the columns' elements, each column from a multiple of 8 on. All is little-endian.
 */

export type NumberArray = Float32Array | Float64Array | Uint8Array | Uint16Array | Uint32Array;

export interface PackedColumn {
  name: string;
  values: NumberArray;
  /** JSON values that the elements are indices of; the highest number of the type stands for none. */
  categories?: readonly unknown[];
}

export interface Packed<Header> {
  header: Header;
  columns: ReadonlyMap<string, PackedColumn>;
}

const KINDS = { f32: Float32Array, f64: Float64Array, u8: Uint8Array, u16: Uint16Array, u32: Uint32Array };

interface Described {
  name: string;
  type: keyof typeof KINDS;
  offset: number;
  length: number;
  categories?: readonly unknown[];
}

/** The columns are views of the answer: nothing is copied. Throws on what is cut off or of another form. */
export function unpack<Header extends object>(answer: ArrayBuffer): Packed<Header> {
  if (answer.byteLength < 4) throw new Error("The server's columns are cut off.");
  const length = new DataView(answer).getUint32(0, true);
  const begin = Math.ceil((4 + length) / 8) * 8;
  if (begin > answer.byteLength && length + 4 > answer.byteLength)
    throw new Error("The server's columns are cut off.");
  const text = new TextDecoder().decode(new Uint8Array(answer, 4, length));
  const { columns, ...header } = JSON.parse(text) as Header & { columns: readonly Described[] };
  const read = new Map<string, PackedColumn>();
  for (const { name, type, offset, length: count, categories } of columns) {
    const kind = KINDS[type];
    if (begin + offset + count * kind.BYTES_PER_ELEMENT > answer.byteLength)
      throw new Error("The server's columns are cut off.");
    const values = count === 0 ? new kind(0) : new kind(answer, begin + offset, count);
    read.set(name, categories === undefined ? { name, values } : { name, values, categories });
  }
  return { header: header as unknown as Header, columns: read };
}

/** The code that stands for no value in a coded column. */
export function missingCode(values: NumberArray): number {
  return values instanceof Uint8Array ? 0xff : values instanceof Uint16Array ? 0xffff : 0xffffffff;
}

/** The values of a column as numbers: of a coded one the index of the category. NaN where there is none. */
export function numbersOf({ values, categories }: PackedColumn): Float32Array | Float64Array {
  if (values instanceof Float32Array || values instanceof Float64Array) return values;
  const numbers = new Float64Array(values);
  if (categories === undefined) return numbers;
  const missing = missingCode(values);
  for (let row = 0; row < numbers.length; row += 1) if (values[row] === missing) numbers[row] = NaN;
  return numbers;
}

/** How a category is shown. */
export const categoryText = (value: unknown): string =>
  typeof value === "string" ? value : JSON.stringify(value);
