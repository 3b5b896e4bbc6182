import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { answerOf, api, type Schemas } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Chart } from "@/ui/chart/Chart";
import { useColours, type Colours } from "@/ui/chart/colours";
import type { ChartOption } from "@/ui/chart/echarts";
import { NoChart } from "@/ui/chart/Figure";
import { tip } from "@/ui/chart/tip";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { useUrlState } from "@/ui/useUrlState";
import { Choice } from "./Choice";
import { textOf } from "./selection";
import type { Shared } from "./shared";

const PAGE = 50;
const BY = ["assessor", "scheduler", "duration", "user", "system"] as const;

/** Which trials were stopped before their end: by whom, at which step, with which value. */
export default function Stopped({ shared }: { shared: Shared }) {
  const words = strings.analysis.stopped;
  const { id } = shared;
  const colours = useColours();
  const [chosen, setBy] = useUrlState("by", "");
  const [from, setFrom] = useUrlState("from", "0");
  const by = BY.find((one) => one === chosen);
  const offset = Math.max(0, Number(from) || 0);
  const filter = [shared.filter, textOf(shared.brushes)].filter(Boolean).join(";");
  const answer = useQuery({
    queryKey: ["live", id, "stopped", filter, by ?? "", offset],
    queryFn: ({ signal }) => {
      const query = { filter, offset, limit: PAGE, ...(by === undefined ? {} : { by }) };
      return answerOf(
        api.GET("/api/v1/experiments/{id}/analysis/stopped", { params: { path: { id }, query }, signal }),
      );
    },
    placeholderData: (before) => before,
  });
  const steps = answer.data?.steps;
  const option = useMemo(() => optionOf(steps ?? [], colours), [steps, colours]);
  if (answer.data === undefined)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  const { counts, total, trials, assessor } = answer.data;
  const all = counts.assessor + counts.scheduler + counts.duration + counts.user + counts.system;
  if (all === 0) return <NoChart title={words.title} sentence={words.none(assessor)} />;
  return (
    <>
      <Chart
        title={words.title}
        summary={words.summary(
          all,
          counts.assessor,
          assessor,
          counts.scheduler,
          counts.duration,
          counts.user,
          counts.system,
        )}
        option={option}
        height={200}
        tools={
          <Choice
            label={words.by}
            value={by ?? ""}
            onChange={(value) => {
              setBy(value);
            }}
            options={[
              ["", words.anyone],
              ...BY.map((one) => [one, `${words.names[one]} (${formatNumber(counts[one])})`] as const),
            ]}
          />
        }
        table={() => ({
          columns: ["step", "reached", "stopped"],
          rows: (steps ?? []).map(({ step, reached, stopped }) => [step, reached, stopped]),
        })}
      />
      <section className="card stack" aria-label={words.list}>
        <Rows trials={trials} />
        <div className="row">
          <span className="soft number">{words.page(offset + 1, offset + trials.length, total)}</span>
          <Button small disabled={offset === 0} onClick={() => setFrom(String(Math.max(0, offset - PAGE)))}>
            {words.newer}
          </Button>
          <Button small disabled={offset + PAGE >= total} onClick={() => setFrom(String(offset + PAGE))}>
            {words.older}
          </Button>
        </div>
      </section>
    </>
  );
}

function Rows({ trials }: { trials: readonly Schemas["StoppedTrial"][] }) {
  const words = strings.analysis.stopped;
  return (
    <div className="chart-table">
      <table>
        <thead>
          <tr>
            {[words.trial, words.by, words.step, words.value, words.reason].map((heading) => (
              <th key={heading} scope="col">
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {trials.map(({ trialId, sequence, by, step, value, reason }) => (
            <tr key={trialId}>
              <td>
                <Link href={`/trials/${trialId}`}>{strings.analysis.trial(sequence)}</Link>
              </td>
              <td>{words.names[by]}</td>
              <td className="number">{formatNumber(step)}</td>
              <td className="number">{formatNumber(value)}</td>
              <td className="wraps">{reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function optionOf(steps: readonly Schemas["StepCounts"][], colours: Colours): ChartOption {
  const words = strings.analysis.stopped;
  return {
    grid: { left: 70, right: 20, top: 12, bottom: 40 },
    xAxis: {
      type: "category",
      data: steps.map(({ step }) => String(step)),
      name: words.step,
      nameLocation: "middle",
      nameGap: 26,
    },
    yAxis: { type: "value", name: strings.analysis.duration.trials, nameLocation: "middle", nameGap: 52 },
    tooltip: {
      trigger: "axis",
      formatter: (points) => {
        const one = steps[(Array.isArray(points) ? points[0]?.dataIndex : points.dataIndex) ?? 0];
        return tip(`${words.step} ${one?.step ?? ""}`, [
          [words.reached, formatNumber(one?.reached)],
          [words.stoppedHere, formatNumber(one?.stopped)],
        ]);
      },
    },
    series: {
      type: "bar",
      data: steps.map(({ stopped }) => stopped),
      color: colours.series[1] ?? colours.ink,
      barMaxWidth: 40,
    },
  };
}
