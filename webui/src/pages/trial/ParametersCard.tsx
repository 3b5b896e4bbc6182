import { useId, useState } from "react";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatNumber } from "@/ui/format";
import { shownValue } from "@/ui/trial/flat";
import { asCommandLine, asJson, asPython, asYaml } from "@/ui/trial/spelled";
import { differences, type Difference } from "./differences";

type TrialDetail = Schemas["TrialDetail"];

const text = strings.trial.parameters;

interface ParametersCardProps {
  trial: TrialDetail;
  best: Schemas["BestTrial"] | null;
}

/** What the trial was given, beside what the best one was. */
export function ParametersCard({ trial, best }: ParametersCardProps) {
  const title = useId();
  const [chosen, setChosen] = useState(0);
  const set = trial.sets?.[chosen];
  const parameters: unknown = set === undefined ? trial.parameters : set.parameters;
  const other = best !== null && best.trialId !== trial.id ? best : null;
  const rows = differences(parameters, other?.parameters);
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <div className="spread">
        <h3 id={title}>{text.title}</h3>
        <div className="row" role="group" aria-label={strings.overview.best.copyAs}>
          <span className="soft">{strings.overview.best.copyAs}</span>
          <Copy label={strings.overview.best.yaml} text={() => asYaml(parameters)} />
          <Copy label={strings.overview.best.python} text={() => asPython(parameters)} />
          <Copy label={strings.overview.best.words} text={() => asCommandLine(parameters)} />
          <Copy label={strings.overview.best.json} text={() => asJson(parameters)} />
        </div>
      </div>
      {trial.sets === null ? null : (
        <label className="row">
          {text.set}
          <select
            className="input"
            value={chosen}
            onChange={(event) => setChosen(Number(event.target.value))}
          >
            {trial.sets.map((each, index) => (
              <option key={index} value={index}>
                {text.setOf(
                  String(each.parameterId ?? index),
                  each.finalText === null ? text.noResult : formatNumber(each.finalValue),
                )}
              </option>
            ))}
          </select>
        </label>
      )}
      {rows.length === 0 ? (
        <p className="soft">{text.none}</p>
      ) : (
        <>
          <p className="soft">
            {best === null
              ? text.noBest
              : other === null
                ? text.isBest
                : text.summary(rows.filter(({ equal }) => equal).length, rows.length)}
          </p>
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">{text.name}</th>
                <th scope="col">{text.value}</th>
                {other === null ? null : (
                  <>
                    <th scope="col">{text.best(other.sequence)}</th>
                    <th scope="col">{text.difference}</th>
                  </>
                )}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <Row key={row.name} row={row} compared={other !== null} />
              ))}
            </tbody>
          </table>
        </>
      )}
    </section>
  );
}

function Row({ row, compared }: { row: Difference; compared: boolean }) {
  const cell = (value: unknown) => (value === undefined ? strings.common.notAvailable : shownValue(value));
  return (
    <tr>
      <th scope="row">{row.name}</th>
      <td className="number" title={String(row.own)}>
        {cell(row.own)}
      </td>
      {compared ? (
        <>
          <td className="number soft" title={String(row.best)}>
            {cell(row.best)}
          </td>
          <td className={row.equal ? "number equal" : "number"}>{differenceOf(row)}</td>
        </>
      ) : null}
    </tr>
  );
}

function differenceOf(row: Difference): string {
  if (row.equal) return `= ${text.same}`;
  if (row.own === undefined) return text.missing;
  if (row.best === undefined) return text.only;
  if (row.by === null) return `≠ ${text.other}`;
  const sign = row.by > 0 ? "+" : "−";
  const share =
    typeof row.best === "number" && row.best !== 0
      ? ` (${sign}${formatNumber(Number(Math.abs((100 * row.by) / row.best).toPrecision(3)))} %)`
      : "";
  return `${sign}${formatNumber(Math.abs(row.by))}${share}`;
}
