import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { answerOf, api } from "@/api/client";
import type { Profile } from "@/data/experiment";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatInstant } from "@/ui/format";

const text = strings.overview.attention;
const AT_ONCE = 3; // entries that are shown without unfolding the rest

/** The failed trial with the highest number. Read again when another trial has failed. */
function useLastFailure(id: string, failed: number): Trial | undefined {
  const found = useQuery({
    queryKey: ["static", id, "last failure", failed],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/trials", {
          params: {
            path: { id },
            query: { status: ["FAILED"], sort: "sequence", order: "desc", limit: 1 },
          },
          signal,
        }),
      ),
    enabled: failed > 0,
  });
  return found.data?.trials[0];
}

/** What user code raised, what is odd at present, and the last failure with its cause. Nothing if all is well. */
export function Attention({ id, profile }: { id: string; profile: Profile }) {
  const failure = useLastFailure(id, profile.counts.FAILED ?? 0);
  const entries: { key: string; entry: ReactNode }[] = [
    ...profile.notices.map((notice) => ({ key: notice.about, entry: <NoticeEntry notice={notice} /> })),
    ...(failure === undefined ? [] : [{ key: failure.id, entry: <FailureEntry trial={failure} /> }]),
    ...profile.errors.map((error) => ({
      key: `${error.at} ${error.call}`,
      entry: <ErrorEntry error={error} />,
    })),
  ];
  if (entries.length === 0) return null;
  const rest = entries.slice(AT_ONCE);
  return (
    <section className="card stack-small" aria-labelledby="attention-title">
      <h2 id="attention-title">{text.title}</h2>
      <ul className="problems">
        {entries.slice(0, AT_ONCE).map(({ key, entry }) => (
          <li key={key}>{entry}</li>
        ))}
      </ul>
      {rest.length === 0 ? null : (
        <details>
          <summary>{text.more(rest.length)}</summary>
          <ul className="problems">
            {rest.map(({ key, entry }) => (
              <li key={key}>{entry}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function NoticeEntry({ notice }: { notice: Profile["notices"][number] }) {
  return (
    <div className="note warn">
      {notice.sentence}
      <Fold label={text.detail} content={notice.detail} />
    </div>
  );
}

function FailureEntry({ trial }: { trial: Trial }) {
  return (
    <div className="note bad spread">
      <Link href={`/trials/${trial.id}`}>
        {text.lastFailure(trial.sequence, trial.reason ?? text.noReason)}
      </Link>
      {trial.endedAt === null ? null : (
        <time className="soft" dateTime={trial.endedAt}>
          {formatInstant(trial.endedAt)}
        </time>
      )}
    </div>
  );
}

function ErrorEntry({ error }: { error: Profile["errors"][number] }) {
  return (
    <div className="note bad">
      <div className="spread">
        <span>{error.sentence}</span>
        <span className="soft">
          {text.by(error.role, error.call)} · <time dateTime={error.at}>{formatInstant(error.at)}</time>
          {error.trialId === null ? null : (
            <>
              {" · "}
              <Link href={`/trials/${error.trialId}`}>{text.trial(error.trialId)}</Link>
            </>
          )}
        </span>
      </div>
      <Fold label={text.traceback} content={error.traceback} />
    </div>
  );
}

function Fold({ label, content }: { label: string; content: string }) {
  if (content === "") return null;
  return (
    <details>
      <summary>{label}</summary>
      <pre className="scrolls-y">{content}</pre>
      <Copy text={content} />
    </details>
  );
}
