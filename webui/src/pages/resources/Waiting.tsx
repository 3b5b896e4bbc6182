import { Link } from "wouter";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";

const texts = strings.resources;

interface WaitingProps {
  waiting: readonly Schemas["WaitingTrials"][];
  /** Where several experiments are told of: their names. */
  nameOf?: (experimentId: string) => string;
}

/** Trials without a place, by the reason of their waiting. */
export function Waiting({ waiting, nameOf }: WaitingProps) {
  return (
    <section className="card">
      <h2>{texts.waiting}</h2>
      {waiting.length === 0 ? (
        <p className="soft">{texts.waitingNone}</p>
      ) : (
        <div className="table-scroll">
          <table className="plain">
            <thead>
              <tr>
                {nameOf === undefined ? null : <th scope="col">{texts.columns.experiment}</th>}
                <th scope="col">{texts.columns.trials}</th>
                <th scope="col">{texts.columns.reason}</th>
              </tr>
            </thead>
            <tbody>
              {waiting.map((each) => (
                <tr key={`${each.experimentId} ${each.reason}`}>
                  {nameOf === undefined ? null : (
                    <td>
                      <Link href={`~/experiments/${each.experimentId}`}>{nameOf(each.experimentId)}</Link>
                    </td>
                  )}
                  <td className="number">{texts.waitingCount(each.count)}</td>
                  <td>{each.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
