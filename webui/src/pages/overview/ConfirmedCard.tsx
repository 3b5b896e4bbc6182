import { Link } from "wouter";
import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { formatNumber } from "@/ui/format";

const text = strings.overview.confirmed;

/** The trials that were run again with other seeds after the search. */
export function ConfirmedCard({ profile }: { profile: Profile }) {
  const found = profile.confirmations;
  if (found === null || found.trials.length === 0) return null;
  return (
    <section className="card stack-small" aria-labelledby="confirmed-title">
      <h2 id="confirmed-title">{text.title}</h2>
      <p className="soft">
        {text.about(found.runs)}
        {found.open === 0 ? null : ` ${text.open(found.open)}`}
      </p>
      <table className="plain" aria-label={text.table}>
        <thead>
          <tr>
            <th scope="col">{text.trial}</th>
            {[text.mean, text.interval, text.deviation, text.runs, text.search].map((title) => (
              <th key={title} scope="col" className="right">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {found.trials.map((each) => (
            <tr key={each.trialId}>
              <th scope="row">
                <Link href={`/trials/${each.trialId}`}>{strings.overview.best.trial(each.sequence)}</Link>
              </th>
              <td className="number right">{formatNumber(each.mean)}</td>
              <td className="number right">
                {each.low === null
                  ? strings.common.notAvailable
                  : text.between(formatNumber(each.low), formatNumber(each.high))}
              </td>
              <td className="number right">{formatNumber(each.deviation)}</td>
              <td className="number right">{text.usable(each.usable, each.unusable)}</td>
              <td className="number right">{formatNumber(each.value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
