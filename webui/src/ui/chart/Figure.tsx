import { useState, type ReactNode } from "react";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Menu } from "@/ui/Menu";
import { csv, download } from "@/ui/download";
import { formatNumber } from "@/ui/format";
import { complain, say } from "@/ui/toasts";
import "./chart.css";

export type Cell = string | number | null;

/** What a chart shows, as a table. */
export interface ChartTable {
  columns: readonly string[];
  rows: readonly (readonly Cell[])[];
}

interface FigureProps {
  title: string;
  /** What the picture says, in a sentence: seen below the title, and read out. */
  summary: string;
  /** Made when it is wanted. */
  table: () => ChartTable;
  picture?: (() => HTMLCanvasElement | null | undefined) | undefined;
  /** The picture as text of SVG. */
  svg?: (() => Promise<string | null>) | undefined;
  /** Of the files that are downloaded, without an ending. */
  fileName?: string | undefined;
  tools?: ReactNode;
  children: ReactNode;
}

/** The frame of every chart: its title, what it says, and its data as CSV, picture and table. */
export function Figure({ title, summary, table, picture, svg, fileName, tools, children }: FigureProps) {
  const [shown, setShown] = useState<ChartTable>();
  const name = fileName ?? title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const saveTable = () => {
    const made = table();
    download(`${name}.csv`, csv([made.columns, ...made.rows]), "text/csv");
  };
  const savePicture = () => {
    const drawn = picture?.() ?? null;
    if (drawn === null) say(strings.chart.notDrawn);
    drawn?.toBlob((blob) => {
      if (blob !== null) download(`${name}.png`, blob, "image/png");
    });
  };
  const saveSvg = () => {
    svg?.().then((text) => {
      if (text === null) say(strings.chart.notDrawn);
      else download(`${name}.svg`, text, "image/svg+xml");
    }, complain);
  };
  return (
    <figure className="card chart">
      <div className="chart-head">
        <div>
          <h2>{title}</h2>
          <figcaption className="soft">{summary}</figcaption>
        </div>
        <div className="row">
          {tools}
          <Menu
            small
            label={strings.chart.data}
            name={strings.chart.dataOf(title)}
            items={[
              { label: strings.chart.csv, onSelect: saveTable },
              ...(picture === undefined ? [] : [{ label: strings.chart.png, onSelect: savePicture }]),
              ...(svg === undefined ? [] : [{ label: strings.chart.svg, onSelect: saveSvg }]),
              { label: strings.chart.table, onSelect: () => setShown(table()) },
            ]}
          />
        </div>
      </div>
      {children}
      {shown === undefined ? null : (
        <TableDialog title={title} table={shown} onSave={saveTable} onClose={() => setShown(undefined)} />
      )}
    </figure>
  );
}

const MOST_ROWS = 500;

function TableDialog({
  title,
  table,
  onSave,
  onClose,
}: {
  title: string;
  table: ChartTable;
  onSave: () => void;
  onClose: () => void;
}) {
  const cut = table.rows.length > MOST_ROWS;
  return (
    <Dialog title={title} onClose={onClose} footer={<Button onClick={onSave}>{strings.chart.csv}</Button>}>
      {cut ? <p className="soft">{strings.chart.firstRows(MOST_ROWS, table.rows.length)}</p> : null}
      {table.rows.length === 0 ? <p className="soft">{strings.chart.noRows}</p> : null}
      <div className="chart-table">
        <table>
          <thead>
            <tr>
              {table.columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.slice(0, MOST_ROWS).map((row, index) => (
              <tr key={index}>
                {row.map((cell, place) => (
                  <td key={place} className={typeof cell === "number" ? "number" : ""}>
                    {typeof cell === "number" ? formatNumber(cell) : (cell ?? "")}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Dialog>
  );
}

/** What stands where a chart would be: why there is none. */
export function NoChart({ title, sentence }: { title: string; sentence: string }) {
  return (
    <section className="card chart">
      <h2>{title}</h2>
      <p className="soft chart-none">{sentence}</p>
    </section>
  );
}
