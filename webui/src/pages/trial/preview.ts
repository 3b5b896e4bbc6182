/** Which files of a trial can be shown, and how. */

export type PreviewKind = "image" | "table" | "text";

const IMAGES: Readonly<Record<string, string>> = {
  avif: "image/avif",
  bmp: "image/bmp",
  gif: "image/gif",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  png: "image/png",
  svg: "image/svg+xml",
  webp: "image/webp",
};
const TABLES = ["csv", "tsv"];
const BINARIES = /\.(bin|bz2|ckpt|gz|h5|joblib|npy|npz|onnx|parquet|pkl|pt|pth|pyc|safetensors|tar|xz|zip)$/i;
const MIB = 1024 * 1024;

/** In bytes. */
export const MOST_BYTES: Readonly<Record<PreviewKind, number>> = {
  image: 10 * MIB,
  table: 2 * MIB,
  text: 2 * MIB,
};

const ending = (path: string) => path.split(".").at(-1)?.toLowerCase() ?? "";

/** How the file can be shown; null: it can only be downloaded. */
export function kindOf(path: string, size: number): PreviewKind | null {
  const kind = ending(path) in IMAGES ? "image" : TABLES.includes(ending(path)) ? "table" : "text";
  return BINARIES.test(path) || size > MOST_BYTES[kind] ? null : kind;
}

export const imageType = (path: string) => IMAGES[ending(path)] ?? "application/octet-stream";

/** The text of a file; null: it is no text. */
export function textOf(content: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
