import { Fragment } from "react";
import { Link } from "wouter";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Copy } from "@/ui/Copy";
import { StatusBadge } from "@/ui/StatusBadge";
import { useColours } from "@/ui/chart/colours";
import { csv, download } from "@/ui/download";
import { lineLook } from "@/ui/trial/CurveChart";
import { useUrlState } from "@/ui/useUrlState";
import { rowsOf, type CompareRow, type Group } from "./rows";

const text = strings.compare;
const GROUPS: readonly Group[] = ["parameters", "metrics", "trial"];

interface CompareTableProps {
  id: string;
  trials: readonly Trial[];
  onRemove: (trial: Trial) => void;
}

export function CompareTable({ id, trials, onRemove }: CompareTableProps) {
  const [only, setOnly] = useUrlState("differences", "");
  const { series } = useColours();
  const every = rowsOf(trials);
  const rows = only === "" ? every : every.filter((row) => row.differs);
  const lines = () => [
    [text.name, ...trials.map((trial) => text.trial(trial.sequence))],
    ...rows.map((row) => [row.name, ...row.cells]),
  ];
  const tabbed = () =>
    lines()
      .map((line) => line.map((cell) => (cell ?? "").replace(/[\t\n]/g, " ")).join("\t"))
      .join("\n");
  return (
    <section className="card" aria-label={text.table}>
      <div className="spread">
        <label className="row">
          <input
            type="checkbox"
            checked={only !== ""}
            onChange={(event) => setOnly(event.target.checked ? "1" : "")}
          />
          {text.differences}
        </label>
        <div className="row">
          <Copy text={tabbed} label={text.copyTable} />
          <Button small onClick={() => download(`${id}-compare.csv`, csv(lines()), "text/csv")}>
            {text.csv}
          </Button>
        </div>
      </div>
      {/* A box that scrolls has to be reached by keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className="compare-box" tabIndex={0} role="group" aria-label={text.table}>
        <table className="compare-table">
          <thead>
            <tr>
              <th scope="col">{text.name}</th>
              {trials.map((trial, at) => (
                <th key={trial.id} scope="col">
                  <span className="compare-head">
                    <Swatch {...lineLook(at, series)} />
                    <Link href={`/trials/${trial.id}`}>{text.trial(trial.sequence)}</Link>
                    <Button
                      small
                      look="plain"
                      aria-label={text.remove(trial.sequence)}
                      title={text.remove(trial.sequence)}
                      onClick={() => onRemove(trial)}
                    >
                      ✕
                    </Button>
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {GROUPS.map((group) => (
              <GroupRows
                key={group}
                group={group}
                rows={rows.filter((row) => row.group === group)}
                span={trials.length}
              />
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 ? <p className="soft">{text.noDifferences}</p> : null}
    </section>
  );
}

/** How the trial's line is drawn in the chart below. */
function Swatch({ color, type }: { color: string; type: string }) {
  return (
    <span
      aria-hidden
      className="swatch"
      style={{
        borderTopColor: color,
        borderTopStyle: type === "solid" ? "solid" : type === "dashed" ? "dashed" : "dotted",
      }}
    />
  );
}

function GroupRows({ group, rows, span }: { group: Group; rows: readonly CompareRow[]; span: number }) {
  if (rows.length === 0) return null;
  return (
    <Fragment>
      <tr className="compare-group">
        <th scope="colgroup" colSpan={span + 1}>
          {text.groups[group]}
        </th>
      </tr>
      {rows.map((row) => (
        <tr key={row.name} className={row.differs ? "differs" : undefined}>
          <th scope="row">{row.name}</th>
          {row.cells.map((cell, at) => (
            <td key={at} className="number" title={cell ?? undefined}>
              {row.name === text.rows.status && cell !== null ? (
                <StatusBadge status={cell} />
              ) : (
                (cell ?? <span className="soft">{strings.common.notAvailable}</span>)
              )}
            </td>
          ))}
        </tr>
      ))}
    </Fragment>
  );
}
