import { lazy, Suspense, useId } from "react";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { Feed } from "@/ui/Feed";
import { Tabs } from "@/ui/Tabs";
import { useUrlState } from "@/ui/useUrlState";
import { FilesOfAttempt } from "./FilesOfAttempt";
import { UsageOfAttempt } from "./UsageOfAttempt";

const LogView = lazy(() => import("@/ui/log/LogView").then(({ LogView }) => ({ default: LogView })));

const text = strings.trial;
const TABS = ["logs", "files", "usage", "feed"] as const;
const LOGS = ["stdout", "stderr", "trial.log"] as const;

type TrialDetail = Schemas["TrialDetail"];

interface OfTrial {
  id: string;
  trial: TrialDetail;
}

/** What an attempt has written, and what has happened to the trial. */
export function TrialTabs({ id, trial }: OfTrial) {
  const panel = useId();
  const [wanted, setWanted] = useUrlState("tab", "logs", { replace: true });
  const shown = TABS.find((tab) => tab === wanted) ?? "logs";
  const [attempt, setAttempt] = useUrlState("attempt", "", { replace: true });
  const job =
    trial.jobs.find((each) => String(each.attempt) === attempt) ??
    trial.jobs.findLast((each) => each.placedAt !== null) ?? // one that waits for a place has written nothing
    trial.jobs.at(-1);
  return (
    <section className="card stack-small" aria-label={text.sections}>
      <Tabs
        label={text.sections}
        tabs={TABS.map((tab) => ({ id: tab, label: text.tabs[tab] }))}
        value={shown}
        onChange={setWanted}
        panel={panel}
      />
      <div id={panel} role="tabpanel" aria-label={text.tabs[shown]} className="stack-small">
        {shown === "feed" ? (
          <Feed id={id} trialId={trial.id} />
        ) : job === undefined ? (
          <p className="soft">{text.logs.notStarted}</p>
        ) : (
          <>
            {trial.jobs.length < 2 ? null : (
              <label className="row">
                {text.logs.attempt}
                <select
                  className="input"
                  value={job.attempt}
                  onChange={(event) => setAttempt(event.target.value)}
                >
                  {trial.jobs.map((each) => (
                    <option key={each.attempt}>{each.attempt}</option>
                  ))}
                </select>
              </label>
            )}
            {shown === "logs" ? (
              <Logs id={id} trial={trial} job={job} />
            ) : shown === "usage" ? (
              <UsageOfAttempt id={id} trial={trial} job={job} />
            ) : (
              <FilesOfAttempt id={id} trial={trial} job={job} />
            )}
          </>
        )}
      </div>
    </section>
  );
}

function Logs({ id, trial, job }: OfTrial & { job: Schemas["Job"] }) {
  // Why an attempt failed stands in its stderr.
  const usual = trial.status === "FAILED" ? "stderr" : "stdout";
  const [wanted, setWanted] = useUrlState("log", "", { replace: true });
  const name = LOGS.find((log) => log === wanted) ?? usual;
  return (
    <>
      <div className="row" role="group" aria-label={text.logs.which}>
        {LOGS.map((log) => (
          <button
            key={log}
            type="button"
            className="button small"
            aria-pressed={log === name}
            onClick={() => setWanted(log)}
          >
            {log}
          </button>
        ))}
      </div>
      <Suspense fallback={<p className="soft">{strings.common.loading}</p>}>
        <LogView
          address={`/api/v1/experiments/${id}/trials/${trial.id}/logs/${name}?attempt=${job.attempt}`}
          name={`${id}-${trial.id}-${name}`}
          writing={job.endedAt === null}
          changed={`${job.startedAt} ${trial.intermediates} ${job.endedAt}`}
        />
      </Suspense>
    </>
  );
}
