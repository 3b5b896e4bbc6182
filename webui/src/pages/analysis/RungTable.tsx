import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { formatNumber } from "@/ui/format";
import { nameOf, type Fate, type Rungs } from "./rungData";

const FATES: readonly Fate[] = ["promoted", "stopped", "running", "left"];

/** How many trials came to each rung, and what became of them. */
export function RungTable({ rungs, open }: { rungs: Rungs; open: (sequence: number) => void }) {
  const words = strings.analysis.rungs;
  return (
    <section className="card stack" aria-label={words.table}>
      <h2>{words.table}</h2>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the keyboard scrolls it */}
      <div className="chart-table" role="region" aria-label={words.table} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{words.axis[rungs.by]}</th>
              <th scope="col" className="number">
                {words.reached}
              </th>
              {FATES.map((fate) => (
                <th key={fate} scope="col" className="number">
                  {words.fates[rungs.by][fate]}
                </th>
              ))}
              <th scope="col" className="number">
                {words.cut[rungs.by]}
              </th>
            </tr>
          </thead>
          <tbody>
            {rungs.rungs.map((rung) => (
              <tr key={rung.to}>
                <th scope="row">{nameOf(rung)}</th>
                <td className="number">{formatNumber(rung.reached)}</td>
                {FATES.map((fate) => (
                  <td key={fate} className="number">
                    {formatNumber(rung[fate])}
                  </td>
                ))}
                <td className="number">{rung.cut === null ? "–" : <Cut cut={rung.cut} open={open} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Cut({ cut, open }: { cut: { sequence: number; value: number }; open: (sequence: number) => void }) {
  return (
    <>
      {formatNumber(cut.value)}{" "}
      <Button small look="plain" onClick={() => open(cut.sequence)}>
        {strings.analysis.trial(cut.sequence)}
      </Button>
    </>
  );
}
