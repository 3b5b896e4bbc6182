import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { profileQuery, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Chart } from "@/ui/chart/Chart";
import { useColours } from "@/ui/chart/colours";
import type { ChartOption } from "@/ui/chart/echarts";
import { NoChart } from "@/ui/chart/Figure";
import { tip } from "@/ui/chart/tip";
import { Failure } from "@/ui/Failure";
import { formatNumber } from "@/ui/format";
import { isRecord } from "@/ui/trial/space";
import type { Shared } from "./shared";
import { useImportance } from "./useImportance";

type Parameter = Schemas["ParameterImportance"];

/** How much each parameter matters, as a bar with its error. */
export default function Importance({ shared }: { shared: Shared }) {
  const { id, label } = shared;
  const words = strings.analysis.importance;
  const colours = useColours();
  const answer = useImportance(shared);
  const profile = useQuery(profileQuery(id));
  const parameters = useMemo(() => [...(answer.data?.parameters ?? [])].reverse(), [answer.data]);
  const option = useMemo(
    () => optionOf(parameters, label, colours.series[0] ?? "", colours.ink),
    [parameters, label, colours],
  );
  if (answer.data === undefined)
    return answer.isError ? (
      <Failure error={answer.error} onRetry={() => void answer.refetch()} />
    ) : (
      <NoChart title={words.title} sentence={strings.common.loading} />
    );
  const { sentence, trials, best, source } = answer.data;
  if (sentence !== null) return <NoChart title={words.title} sentence={sentence} />;
  const first = parameters.at(-1);
  const learning = learningTuner(profile.data?.config);
  return (
    <>
      {learning === null ? null : <p className="note warn">{words.biased(learning)}</p>}
      <Chart
        title={words.title}
        summary={words.summary(label(first?.name ?? ""), percentOf(first?.importance), trials, best, source)}
        option={option}
        height={parameters.length > 12 ? 460 : 320}
        table={() => ({
          columns: ["parameter", "importance", "error"],
          rows: [...parameters].reverse().map(({ name, importance, error }) => [name, importance, error]),
        })}
      />
    </>
  );
}

/** Tuners whose suggestions do not depend on results. */
const EVEN = new Set(["Random", "GridSearch", "BatchTuner", "Batch", "QMC"]);

/** The tuner's name if it prefers regions with good results, so that its trials are no fair sample. */
function learningTuner(config: Profile["config"] | undefined): string | null {
  const tuner = config?.advisor ?? config?.tuner;
  const name = isRecord(tuner) ? (tuner.name ?? tuner.className) : null;
  return typeof name === "string" && !EVEN.has(name) ? name : null;
}

const percentOf = (share: number | undefined) =>
  `${formatNumber(Number(((share ?? 0) * 100).toPrecision(3)))} %`;

function optionOf(
  parameters: readonly Parameter[],
  label: Shared["label"],
  bar: string,
  ink: string,
): ChartOption {
  return {
    grid: { left: 150, right: 30, top: 8, bottom: 44 },
    xAxis: {
      type: "value",
      min: 0,
      name: strings.analysis.importance.share,
      nameLocation: "middle",
      nameGap: 28,
      axisLabel: { formatter: (share: number) => `${formatNumber(share * 100)} %` },
    },
    yAxis: {
      type: "category",
      data: parameters.map(({ name }) => label(name)),
      axisLabel: { width: 136, overflow: "truncate" },
    },
    tooltip: {
      formatter: (point) => {
        const at = (Array.isArray(point) ? point[0]?.dataIndex : point.dataIndex) ?? 0;
        const one = parameters[at];
        return tip(label(one?.name ?? ""), [
          [strings.analysis.importance.title, percentOf(one?.importance)],
          [strings.analysis.importance.error, `± ${percentOf(one?.error)}`],
        ]);
      },
    },
    series: [
      { type: "bar", data: parameters.map(({ importance }) => importance), color: bar, barMaxWidth: 22 },
      {
        type: "custom",
        silent: true,
        z: 3,
        data: parameters.map(({ importance, error }, index) => [
          Math.max(0, importance - error),
          importance + error,
          index,
        ]),
        encode: { x: [0, 1], y: 2 },
        renderItem: (_, api) => {
          const [low, high] = [
            api.coord([api.value(0), api.value(2)]),
            api.coord([api.value(1), api.value(2)]),
          ];
          const [left, right, y] = [low[0] ?? 0, high[0] ?? 0, low[1] ?? 0];
          const style = { stroke: ink, lineWidth: 1.5 };
          const line = (x1: number, y1: number, x2: number, y2: number) =>
            ({ type: "line", shape: { x1, y1, x2, y2 }, style }) as const;
          return {
            type: "group",
            children: [
              line(left, y, right, y),
              line(left, y - 4, left, y + 4),
              line(right, y - 4, right, y + 4),
            ],
          };
        },
      },
    ],
  };
}
