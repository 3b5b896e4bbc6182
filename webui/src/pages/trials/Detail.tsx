import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { curveQuery, DEFAULT_KEY, summaryOf } from "@/data/metrics";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Copy } from "@/ui/Copy";
import { Failure } from "@/ui/Failure";
import { ParameterTree } from "@/ui/trial/ParameterTree";
import { asJson } from "@/ui/trial/spelled";
import { CurveLine } from "./CurveLine";
import { hoverText } from "./hover";

const text = strings.trials.detail;

/** What there is to say of a trial, below its row. */
export function Detail({ id, trial, onClose }: { id: string; trial: Trial; onClose: () => void }) {
  const sentences = [trial.reason, trial.note].filter((sentence) => sentence !== null);
  return (
    <div className="trial-detail">
      <section aria-label={text.parameters}>
        <div className="spread">
          <h2>{trial.sets === null ? text.parameters : text.sets(trial.sets.length)}</h2>
          {trial.parameters == null ? null : (
            <Copy text={() => asJson(trial.parameters)} label={text.copyJson} />
          )}
        </div>
        {trial.parameters == null ? (
          <p className="soft">{text.noParameters}</p>
        ) : (
          <ParameterTree value={trial.parameters} label={text.parameters} />
        )}
      </section>
      <section className="detail-middle" aria-label={text.now}>
        <h2>{text.now}</h2>
        {sentences.length === 0 ? <p className="soft">{text.noReason}</p> : null}
        {sentences.map((sentence) => (
          <p key={sentence}>{sentence}</p>
        ))}
        {trial.finalText === null ? null : (
          <p>
            {text.final}: <code>{trial.finalText}</code>
          </p>
        )}
        {trial.logPath === "" ? null : (
          <>
            <h2>{text.logs}</h2>
            <p>
              <code className="log-path">{trial.logPath}</code> <Copy text={trial.logPath} />
            </p>
          </>
        )}
        <div className="row">
          <Link href={`/trials/${trial.id}`} className="button small">
            {text.open}
          </Link>
          {trial.logPath === "" ? null : (
            <Link href={`/trials/${trial.id}?tab=logs`} className="button small">
              {text.openLogs}
            </Link>
          )}
          <Button small onClick={onClose}>
            {text.close}
          </Button>
        </div>
        {trial.userNote === "" ? null : (
          <>
            <h2>{strings.annotations.note}</h2>
            <p className="user-note">{trial.userNote}</p>
          </>
        )}
      </section>
      <section aria-label={text.intermediates}>
        <h2>{text.intermediates}</h2>
        <LatestIntermediates id={id} trial={trial} />
      </section>
    </div>
  );
}

function LatestIntermediates({ id, trial }: { id: string; trial: Trial }) {
  const curve = useQuery(curveQuery(id, trial, trial.endedAt !== null));
  if (curve.isError && curve.data === undefined)
    return <Failure error={curve.error} onRetry={() => void curve.refetch()} />;
  if (curve.data === undefined) return <p className="soft">{strings.common.loading}</p>;
  const points = curve.data.points.flatMap((point) => {
    const y = point.values[DEFAULT_KEY];
    return y === undefined ? [] : [{ x: point.step, y }];
  });
  const summary = summaryOf(curve.data, DEFAULT_KEY);
  if (summary === null) return <p className="soft">{text.noIntermediates}</p>;
  return (
    <>
      <CurveLine points={points} label={summary} hover={hoverText(trial)} />
      <p className="soft">{summary}</p>
    </>
  );
}
