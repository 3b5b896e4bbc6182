/** The rows of a CSV file. */
import { parse } from "papaparse";

export interface PreviewTable {
  columns: string[];
  rows: string[][];
  /** Not all rows are here. */
  cut: boolean;
}

const MOST_ROWS = 200;

/** The first line names the columns. */
export function tableOf(text: string): PreviewTable {
  const { data } = parse<string[]>(text, { preview: MOST_ROWS + 2, skipEmptyLines: true });
  const [columns = [], ...rows] = data;
  return { columns, rows: rows.slice(0, MOST_ROWS), cut: rows.length > MOST_ROWS };
}
