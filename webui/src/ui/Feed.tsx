import { Fragment, type ReactNode } from "react";
import { Link } from "wouter";
import { useFeed, type FeedEntry } from "@/data/feed";
import { strings } from "@/strings";
import { Button } from "./Button";
import { Failure } from "./Failure";
import { complain } from "./toasts";
import { useUrlState } from "./useUrlState";
import "./feed.css";

const CHOICES = {
  all: ["info", "good", "warning", "error"],
  warnings: ["warning", "error"],
  errors: ["error"],
} satisfies Record<string, FeedEntry["severity"][]>;

const MARKS = { info: "·", good: "✓", warning: "!", error: "✕" } as const;

/** What has happened, newest first, as it happens. */
export function Feed({ id, trialId }: { id: string; trialId?: string }) {
  const { feed, older } = useFeed(id, trialId);
  const [choice, setChoice] = useUrlState("feed", "all", { replace: true });
  const wanted: readonly FeedEntry["severity"][] =
    choice in CHOICES ? CHOICES[choice as keyof typeof CHOICES] : CHOICES.all;
  if (feed.data === undefined)
    return feed.isError ? (
      <Failure error={feed.error} onRetry={() => void feed.refetch()} />
    ) : (
      <p className="soft">{strings.common.loading}</p>
    );
  const shown = feed.data.entries.filter((entry) => wanted.includes(entry.severity));
  return (
    <div className="feed">
      <label className="feed-choice soft">
        {strings.feed.show}
        <select className="input" value={choice} onChange={(event) => setChoice(event.target.value)}>
          {Object.keys(CHOICES).map((name) => (
            <option key={name} value={name}>
              {strings.feed.choices[name as keyof typeof CHOICES]}
            </option>
          ))}
        </select>
      </label>
      {shown.length === 0 ? <p className="soft">{strings.feed.empty}</p> : null}
      <ol className="feed-list" aria-label={strings.feed.title}>
        {shown.map((entry) => (
          <li key={entry.number} className={`feed-entry ${entry.severity}`}>
            <time className="soft number" dateTime={entry.at} title={new Date(entry.at).toLocaleString()}>
              {shortInstant(entry.at)}
            </time>
            <span className="feed-mark" role="img" aria-label={strings.feed.severities[entry.severity]}>
              {MARKS[entry.severity]}
            </span>
            <span>{trialId === undefined ? linked(entry) : entry.sentence}</span>
          </li>
        ))}
      </ol>
      {feed.data.nextBefore === null ? null : (
        <Button
          small
          disabled={older.isPending}
          onClick={() => older.mutate(undefined, { onError: complain })}
        >
          {strings.feed.older}
        </Button>
      )}
    </div>
  );
}

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

/** On one line, in a column; all of it is in the title. */
function shortInstant(at: string): string {
  const date = new Date(at);
  return (date.toDateString() === new Date().toDateString() ? CLOCK : DAY).format(date);
}

const TRIAL = /([Tt]rial #\d+ \(\w+\))/;

/** The sentence, in which each trial that it names is a link. */
function linked(entry: FeedEntry): ReactNode {
  return entry.sentence.split(TRIAL).map((part, index) => {
    const trial = TRIAL.test(part) ? /\((\w+)\)$/.exec(part)?.[1] : undefined;
    if (trial === undefined) return <Fragment key={index}>{part}</Fragment>;
    return (
      <Link key={index} href={`/trials/${trial}`}>
        {part}
      </Link>
    );
  });
}
