import type { ReactNode } from "react";
import { Link } from "wouter";
import { objectivesOf, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatNumber } from "@/ui/format";
import { isRecord } from "@/ui/trial/space";

const text = strings.overview;

/** What the experiment is. */
export function AboutCard({ profile }: { profile: Profile }) {
  const { config } = profile;
  const command = commandOf(config);
  const objectives = objectivesOf(config);
  const [constraints, initial] = [
    lengthOf(config.searchSpaceConstraints),
    lengthOf(config.initialParameters),
  ];
  return (
    <section className="card stack-small" aria-labelledby="about-title">
      <h2 id="about-title">{text.about}</h2>
      <dl className="facts">
        {objectives.length < 2 ? null : (
          <Fact name={text.objectives}>
            <Link href="/analysis?tab=pareto">
              {objectives
                .map(({ name, mode }) => strings.analysis.objective(name, mode === "minimize"))
                .join(", ")}
            </Link>
          </Fact>
        )}
        {constraints === 0 ? null : (
          <Fact name={text.constraints}>{text.feasible(constraints, percentOf(profile.feasibleShare))}</Fact>
        )}
        {initial === 0 ? null : <Fact name={text.initial}>{formatNumber(initial)}</Fact>}
        <Fact name={text.platform}>{profile.platform}</Fact>
        {(["tuner", "assessor", "scheduler", "advisor"] as const).map((role) => {
          const name = algorithm(config[role]);
          if (name === null && (role === "scheduler" || role === "advisor")) return null;
          return (
            <Fact key={role} name={text[role]}>
              {name ?? <span className="soft">{text.none}</span>}
            </Fact>
          );
        })}
        <Fact name={text.directory} copied={profile.directory}>
          <code title={profile.directory}>{profile.directory}</code>
        </Fact>
        {command === null ? null : (
          <Fact name={text.command} copied={command}>
            <code title={command}>{command}</code>
          </Fact>
        )}
      </dl>
    </section>
  );
}

function Fact({ name, copied, children }: { name: string; copied?: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {children}
        {copied === undefined ? null : <Copy text={copied} />}
      </dd>
    </div>
  );
}

const lengthOf = (list: unknown): number => (Array.isArray(list) ? list.length : 0);

const percentOf = (share: number | null): string | null =>
  share === null ? null : `${formatNumber(Number((share * 100).toPrecision(2)))} %`;

function commandOf(config: Profile["config"]): string | null {
  const services = Array.isArray(config.trainingService) ? config.trainingService : [config.trainingService];
  const all = [
    config.trialCommand,
    ...services.map((one: unknown) => (isRecord(one) ? one.trialCommand : null)),
  ];
  return all.find((command) => typeof command === "string") ?? null;
}

function algorithm(written: unknown): string | null {
  if (!isRecord(written)) return null;
  if (typeof written.name === "string") return written.name;
  return typeof written.className === "string" ? text.customClass(written.className) : null;
}
