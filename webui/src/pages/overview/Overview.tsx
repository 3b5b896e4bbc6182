import { useQuery } from "@tanstack/react-query";
import { profileQuery } from "@/data/experiment";
import { strings } from "@/strings";
import { Feed } from "@/ui/Feed";
import { AboutCard } from "./AboutCard";
import { Actions } from "./Actions";
import { BestCard } from "./BestCard";
import { DurationCard } from "./DurationCard";
import { Files } from "./Files";
import { HistoryCard } from "./HistoryCard";
import { NumbersCard } from "./NumbersCard";
import { Problems } from "./Problems";
import { TopTrials } from "./TopTrials";
import "./overview.css";

/** What the experiment is doing and what has come of it. */
export default function Overview({ id }: { id: string }) {
  const { data: profile } = useQuery(profileQuery(id));
  if (profile === undefined) return <p className="soft">{strings.common.loading}</p>;
  return (
    <div className="stack">
      <div className="spread">
        <p className="now" aria-live="polite">
          {profile.now}
        </p>
        <Actions id={id} profile={profile} />
      </div>
      <Problems profile={profile} />
      <div className="overview-cards">
        <AboutCard profile={profile} />
        <DurationCard id={id} profile={profile} />
        <NumbersCard id={id} profile={profile} />
      </div>
      <div className="overview-halves">
        <BestCard profile={profile} />
        <HistoryCard id={id} profile={profile} />
      </div>
      <div className="overview-halves">
        <TopTrials id={id} profile={profile} />
        <section className="card stack-small" aria-labelledby="feed-title">
          <h2 id="feed-title">{strings.overview.feed}</h2>
          <Feed id={id} />
        </section>
      </div>
      <Files id={id} profile={profile} />
    </div>
  );
}
