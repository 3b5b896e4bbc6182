import { useQuery } from "@tanstack/react-query";
import { profileQuery, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { formatDuration, formatInstant } from "@/ui/format";
import { useSecond } from "@/ui/useSecond";
import { EditLimit } from "./EditLimit";
import { inUnits, readDuration } from "./limits";
import { Progress } from "./Progress";
import { whyFixed } from "./whyFixed";

const text = strings.overview.duration;
const MOVING = new Set(["INITIALIZED", "RUNNING", "DRAINING"]);

/** How long it has run, against its limit. */
export function DurationCard({ id, profile }: { id: string; profile: Profile }) {
  const limit = profile.limits.maxExperimentDurationS;
  const ran = useRan(id, profile);
  const typed = limit === null ? { typed: "", unit: "h" as const } : inUnits(limit);
  return (
    <section className="card stack-small" aria-labelledby="duration-title">
      <h2 id="duration-title">{text.title}</h2>
      <p className="figure">
        <strong className="number">{formatDuration(Math.floor(ran))}</strong>{" "}
        <span className="soft">{limit === null ? text.noLimit : text.of(formatDuration(limit))}</span>
      </p>
      {limit === null ? null : (
        <Progress
          label={text.progress}
          parts={[{ look: "accent", share: ran / limit, title: formatDuration(Math.floor(ran)) }]}
        />
      )}
      <dl className="facts">
        <div>
          <dt>{text.started}</dt>
          <dd className="number">{formatInstant(profile.createdAt)}</dd>
        </div>
        <div>
          <dt>{text.end}</dt>
          <dd className="number">
            {MOVING.has(profile.status) ? text.running : formatInstant(profile.endedAt)}
          </dd>
        </div>
        <EditLimit
          id={id}
          name="maxExperimentDuration"
          label={text.limit}
          shown={limit === null ? strings.common.unlimited : formatDuration(limit)}
          {...typed}
          read={(input, unit) => readDuration(input, unit, limit, ran)}
          liftable={limit !== null}
          refused={whyFixed(profile)}
        />
      </dl>
    </section>
  );
}

/** Seconds, counted on since the profile was read. */
function useRan(id: string, profile: Profile): number {
  const { dataUpdatedAt } = useQuery(profileQuery(id));
  const now = useSecond();
  if (!profile.served || !MOVING.has(profile.status)) return profile.durationS;
  return profile.durationS + Math.max(0, now - dataUpdatedAt) / 1000;
}
