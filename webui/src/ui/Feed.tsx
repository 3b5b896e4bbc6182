import { Fragment, useState, type ReactNode } from "react";
import { Link } from "wouter";
import { byTrial, useFeed, type FeedEntry, type FeedGroup } from "@/data/feed";
import { strings } from "@/strings";
import { Button } from "./Button";
import { Failure } from "./Failure";
import { complain } from "./toasts";
import { useUrlState } from "./useUrlState";
import "./feed.css";

const CHOICES = {
  trials: ["info", "good", "warning", "error"],
  all: ["info", "good", "warning", "error"],
  warnings: ["warning", "error"],
  errors: ["error"],
} satisfies Record<string, FeedEntry["severity"][]>;

const MARKS = { info: "·", good: "✓", warning: "!", error: "✕" } as const;

/** What has happened, newest first, as it happens; the events of one trial on one line, if so chosen. */
export function Feed({ id, trialId }: { id: string; trialId?: string }) {
  const { feed, older } = useFeed(id, trialId);
  const names = Object.keys(CHOICES).filter((name) => trialId === undefined || name !== "trials");
  const [choice, setChoice] = useUrlState("feed", names[0] ?? "all", { replace: true });
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
          {names.map((name) => (
            <option key={name} value={name}>
              {strings.feed.choices[name as keyof typeof CHOICES]}
            </option>
          ))}
        </select>
      </label>
      {shown.length === 0 ? <p className="soft">{strings.feed.empty}</p> : null}
      <ol className="feed-list" aria-label={strings.feed.title}>
        {choice === "trials"
          ? byTrial(shown).map((group) => (
              <Group key={group.newest.trialId ?? group.newest.number} group={group} />
            ))
          : shown.map((entry) => <Entry key={entry.number} entry={entry} links={trialId === undefined} />)}
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

/** A trial on one line: its newest event, and a button that shows the earlier ones. */
function Group({ group }: { group: FeedGroup }) {
  const [open, setOpen] = useState(false);
  const { newest, earlier } = group;
  return (
    <>
      <Entry entry={newest} links>
        {earlier.length === 0 ? null : (
          <button
            type="button"
            className="feed-more"
            aria-expanded={open}
            aria-label={strings.feed.earlier(earlier.length)}
            title={strings.feed.earlier(earlier.length)}
            onClick={() => setOpen(!open)}
          >
            {open ? "−" : "+"}
            {earlier.length}
          </button>
        )}
      </Entry>
      {open ? earlier.map((entry) => <Entry key={entry.number} entry={entry} links earlier />) : null}
    </>
  );
}

interface EntryProps {
  entry: FeedEntry;
  /** Trials that the sentence names are links. */
  links: boolean;
  /** Shown below a later event of the same trial. */
  earlier?: boolean;
  children?: ReactNode;
}

function Entry({ entry, links, earlier = false, children }: EntryProps) {
  return (
    <li className={`feed-entry ${entry.severity}${earlier ? " earlier" : ""}`}>
      <time className="soft number" dateTime={entry.at} title={new Date(entry.at).toLocaleString()}>
        {shortInstant(entry.at)}
      </time>
      <span className="feed-mark" role="img" aria-label={strings.feed.severities[entry.severity]}>
        {MARKS[entry.severity]}
      </span>
      <span>
        {links ? linked(entry) : entry.sentence} {children}
      </span>
    </li>
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
