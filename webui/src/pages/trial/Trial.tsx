import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { profileQuery } from "@/data/experiment";
import { trialQuery } from "@/data/trials";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { Failure } from "@/ui/Failure";
import { StatusBadge } from "@/ui/StatusBadge";
import { useTitle } from "@/ui/useTitle";
import { AttemptsCard } from "./AttemptsCard";
import { CheckpointsCard } from "./CheckpointsCard";
import { CurveCard } from "./CurveCard";
import { LegsCard } from "./LegsCard";
import { NotesCard } from "./NotesCard";
import { ParametersCard } from "./ParametersCard";
import { ResultCard } from "./ResultCard";
import { TrialActions } from "./TrialActions";
import { TrialTabs } from "./TrialTabs";
import "./trial.css";

const text = strings.trial;
const IMPORTED = "import"; // the keeper of trials that another program has run

/** All there is to know of one trial. */
export default function Trial({ id, trialId }: { id: string; trialId: string }) {
  const trial = useQuery(trialQuery(id, trialId));
  const { data: profile } = useQuery(profileQuery(id));
  const { data } = trial;
  useTitle(data === undefined ? trialId : text.title(data.sequence), profile?.name || id);
  if (data === undefined)
    return trial.isError ? (
      <Failure error={trial.error} onRetry={() => void trial.refetch()} />
    ) : (
      <p className="soft">{strings.common.loading}</p>
    );
  const imported = data.jobs.some((job) => job.keeperId === IMPORTED);
  const sentences = [data.reason, data.note].filter((sentence) => sentence !== null);
  return (
    <div className="stack">
      <div className="spread">
        <div className="row">
          <h2 className="trial-title">{text.title(data.sequence)}</h2>
          <code>{data.id}</code>
          <Copy text={data.id} />
          <StatusBadge status={data.status} detail={data.detail} />
          <span className="soft">
            {imported ? text.imported : (text.sources[data.source] ?? data.source)}
          </span>
          {data.retryOf === null ? null : (
            <span className="soft">
              {text.ofTrial[data.source] ?? text.retryOf}{" "}
              <Link href={`/trials/${data.retryOf}`}>{data.retryOf}</Link>
            </span>
          )}
          {data.retriedAs === null ? null : (
            <span className="soft">
              {text.retriedAs} <Link href={`/trials/${data.retriedAs}`}>{data.retriedAs}</Link>
            </span>
          )}
        </div>
        <TrialActions id={id} trial={data} profile={profile} />
      </div>
      {sentences.length === 0 ? null : (
        <div className={data.status === "FAILED" ? "note bad" : "note"} aria-live="polite">
          {sentences.map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
        </div>
      )}
      <div className="trial-halves">
        <div className="stack">
          <ParametersCard trial={data} best={profile?.bestTrial ?? null} />
          <NotesCard id={id} trial={data} />
        </div>
        <div className="stack">
          <CurveCard id={id} trial={data} />
          <ResultCard trial={data} best={profile?.bestTrial ?? null} />
        </div>
      </div>
      <AttemptsCard trial={data} />
      <LegsCard trial={data} />
      <CheckpointsCard id={id} trial={data} profile={profile} />
      <TrialTabs id={id} trial={data} />
    </div>
  );
}
