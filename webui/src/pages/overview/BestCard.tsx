import { Link } from "wouter";
import { objectivesOf, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatNumber } from "@/ui/format";
import { asCommandLine, asJson, asPython, asYaml } from "@/ui/trial/spelled";
import { ObjectivesTable } from "./ObjectivesTable";
import { flat, shownValue } from "@/ui/trial/flat";

const text = strings.overview.best;

/** The best trial and what it was given. */
export function BestCard({ id, profile }: { id: string; profile: Profile }) {
  const best = profile.bestTrial;
  const objectives = objectivesOf(profile.config);
  const name = objectives[0]?.name ?? text.default;
  const minimized = profile.optimizeMode === "minimize";
  return (
    <section className="card stack-small" aria-labelledby="best-title">
      <h2 id="best-title">{text.title}</h2>
      <p className="soft">
        {text.goal(minimized ? text.minimize(name) : text.maximize(name))}
        {profile.goalStated ? null : ` ${text.notStated}`}
      </p>
      {best === null ? (
        <p className="soft">{text.none}</p>
      ) : (
        <>
          <p className="figure">
            <strong className="number" title={String(best.value)}>
              {formatNumber(best.value)}
            </strong>{" "}
            <Link href={`/trials/${best.trialId}`}>{text.trial(best.sequence)}</Link>{" "}
            <code>{best.trialId}</code>
          </p>
          {objectives.length < 2 ? null : (
            <ObjectivesTable id={id} profile={profile} objectives={objectives} />
          )}
          {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the keyboard scrolls it */}
          <div className="scrolls-y" role="region" aria-label={text.parameters} tabIndex={0}>
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">{text.parameter}</th>
                  <th scope="col">{text.value}</th>
                </tr>
              </thead>
              <tbody>
                {flat(best.parameters).map(([name, value]) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td className="number" title={String(value)}>
                      {shownValue(value)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div className="row" role="group" aria-label={text.copyAs}>
            <span className="soft">{text.copyAs}</span>
            <Copy label={text.yaml} text={() => asYaml(best.parameters)} />
            <Copy label={text.python} text={() => asPython(best.parameters)} />
            <Copy label={text.words} text={() => asCommandLine(best.parameters)} />
            <Copy label={text.json} text={() => asJson(best.parameters)} />
          </div>
        </>
      )}
    </section>
  );
}
