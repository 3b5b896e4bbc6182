import { Link } from "wouter";
import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatInstant } from "@/ui/format";

const text = strings.overview.problems;

/** What user code has raised, and what is odd at present. Nothing, if all is well. */
export function Problems({ profile }: { profile: Profile }) {
  const { errors, notices } = profile;
  return (
    <>
      {errors.length === 0 ? null : (
        <section className="card stack-small" aria-labelledby="errors-title">
          <h2 id="errors-title">{text.errors}</h2>
          <ul className="problems">
            {errors.map((error) => (
              <li key={`${error.at} ${error.call}`} className="note bad">
                <div className="spread">
                  <span>{error.sentence}</span>
                  <span className="soft">
                    {text.by(error.role, error.call)} ·{" "}
                    <time dateTime={error.at}>{formatInstant(error.at)}</time>
                    {error.trialId === null ? null : (
                      <>
                        {" · "}
                        <Link href={`/trials/${error.trialId}`}>{text.trial(error.trialId)}</Link>
                      </>
                    )}
                  </span>
                </div>
                <Fold label={text.traceback} content={error.traceback} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {notices.length === 0 ? null : (
        <section className="card stack-small" aria-labelledby="warnings-title">
          <h2 id="warnings-title">{text.warnings}</h2>
          <ul className="problems">
            {notices.map((notice) => (
              <li key={notice.about} className="note warn">
                {notice.sentence}
                <Fold label={text.detail} content={notice.detail} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
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
