import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { Link } from "wouter";
import { answerOf, api } from "@/api/client";
import type { Objective, Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";
import { metricValueOf } from "@/ui/trial/parsedMetric";

const text = strings.overview.best;

interface ObjectivesTableProps {
  id: string;
  profile: Profile;
  objectives: readonly Objective[];
}

/** The best result of each objective on its own. Read again when there is another result. */
export function ObjectivesTable({ id, profile, objectives }: ObjectivesTableProps) {
  const results = profile.counts.SUCCEEDED ?? 0;
  const bests = useQueries({
    queries: objectives.map(({ column, mode }) => ({
      queryKey: ["static", id, "best of", column, mode, results],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        answerOf(
          api.GET("/api/v1/experiments/{id}/trials", {
            params: {
              path: { id },
              query: {
                status: ["SUCCEEDED" as const],
                sort: column,
                order: mode === "minimize" ? ("asc" as const) : ("desc" as const),
                limit: 1,
              },
            },
            signal,
          }),
        ),
      placeholderData: keepPreviousData,
    })),
  });
  return (
    <table className="plain" aria-label={text.objectives}>
      <thead>
        <tr>
          <th scope="col">{text.objective}</th>
          <th scope="col">{text.result}</th>
          <th scope="col">{text.trialHead}</th>
        </tr>
      </thead>
      <tbody>
        {objectives.map(({ name, mode, column }, at) => {
          const trial = bests[at]?.data?.trials[0];
          return (
            <tr key={name}>
              <th scope="row">{mode === "minimize" ? text.minimize(name) : text.maximize(name)}</th>
              <td className="number">
                {trial === undefined
                  ? strings.common.notAvailable
                  : formatNumber(
                      column === "value" ? trial.finalValue : metricValueOf(trial.finalText, name),
                    )}
              </td>
              <td>
                {trial === undefined ? null : (
                  <Link href={`/trials/${trial.id}`}>{text.trial(trial.sequence)}</Link>
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
