/** Some trials side by side: what they were given, what came out, and how they came there. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { profileQuery } from "@/data/experiment";
import { curveQuery, NOTHING } from "@/data/metrics";
import { trialsQuery, type Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { NoChart } from "@/ui/chart/Figure";
import { CurveChart } from "@/ui/trial/CurveChart";
import { useTitle } from "@/ui/useTitle";
import { useUrlState } from "@/ui/useUrlState";
import { CompareTable } from "./CompareTable";
import "./compare.css";

const text = strings.compare;
const MOST = 20;

export default function Compare({ id }: { id: string }) {
  const profile = useQuery(profileQuery(id));
  useTitle(text.title, profile.data?.name || id);
  const [written, setWritten] = useUrlState("trials", "");
  const asked = useMemo(() => [...new Set(written.split(",").filter((one) => one !== ""))], [written]);
  const ids = useMemo(() => asked.slice(0, MOST), [asked]);
  const found = useQuery({ ...trialsQuery(id, ids), placeholderData: (before) => before });
  const trials = found.data ?? [];
  const missing =
    found.isSuccess && !found.isPlaceholderData
      ? ids.filter((one) => !trials.some((trial) => trial.id === one))
      : [];

  return (
    <div className="stack">
      <div className="spread">
        <h2>{text.title}</h2>
        <Link href={`/trials${ids.length === 0 ? "" : `?selected=${ids.join(",")}`}`} className="button">
          {text.toTrials}
        </Link>
      </div>
      {ids.length < 2 ? <p className="note">{text.tooFew}</p> : null}
      {asked.length > MOST ? <p className="note warn">{text.tooMany(MOST)}</p> : null}
      {missing.length > 0 ? <p className="note warn">{text.missing(missing.join(", "))}</p> : null}
      {found.isError ? <Failure error={found.error} onRetry={() => void found.refetch()} /> : null}
      {found.isLoading ? <p className="soft">{strings.common.loading}</p> : null}
      {trials.length === 0 ? null : (
        <>
          <CompareTable
            id={id}
            trials={trials}
            onRemove={(trial) => setWritten(ids.filter((one) => one !== trial.id).join(","))}
          />
          <Curves id={id} trials={trials} />
        </>
      )}
    </div>
  );
}

function Curves({ id, trials }: { id: string; trials: readonly Trial[] }) {
  const curves = useQueries({
    queries: trials.map((trial) => curveQuery(id, trial, trial.endedAt !== null)),
    combine: (results) => ({
      curves: results.map((result) => result.data),
      error: results.find((result) => result.isError && result.data === undefined)?.error ?? null,
      retry: () => results.forEach((result) => void result.refetch()),
    }),
  });
  const read = curves.curves;
  const lines = useMemo(
    () =>
      trials.map((trial, at) => ({
        name: text.trial(trial.sequence),
        curve: read[at] ?? NOTHING,
      })),
    [trials, read],
  );
  const count = lines.reduce((sum, { curve }) => sum + curve.points.length, 0);
  if (curves.error !== null) return <Failure error={curves.error} onRetry={curves.retry} />;
  if (count === 0 && read.every((curve) => curve !== undefined))
    return <NoChart title={text.curves} sentence={text.noCurves} />;
  return (
    <CurveChart
      title={text.curves}
      summary={text.curvesSummary(trials.length, count)}
      lines={lines}
      height={460}
    />
  );
}
