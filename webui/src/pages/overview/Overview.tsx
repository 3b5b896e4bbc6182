import { useQuery } from "@tanstack/react-query";
import { profileQuery } from "@/data/experiment";
import { strings } from "@/strings";
import { Feed } from "@/ui/Feed";
import { AboutCard } from "./AboutCard";
import { Actions } from "./Actions";
import { Attention } from "./Attention";
import { BestCard } from "./BestCard";
import { ConfirmedCard } from "./ConfirmedCard";
import { Files } from "./Files";
import { HistoryCard } from "./HistoryCard";
import { ProgressCard } from "./ProgressCard";
import { TopTrials } from "./TopTrials";
import "./overview.css";

/** What the experiment is doing, its best result, its progress, and what needs attention. */
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
      <div className="overview-cards">
        <BestCard id={id} profile={profile} />
        <ProgressCard id={id} profile={profile} />
        <HistoryCard id={id} profile={profile} />
      </div>
      <ConfirmedCard profile={profile} />
      <Attention id={id} profile={profile} />
      <div className="overview-halves">
        <TopTrials id={id} profile={profile} />
        <section className="card stack-small" aria-labelledby="feed-title">
          <h2 id="feed-title">{strings.overview.feed}</h2>
          <Feed id={id} />
        </section>
      </div>
      <AboutCard profile={profile} />
      <Files id={id} profile={profile} />
    </div>
  );
}
