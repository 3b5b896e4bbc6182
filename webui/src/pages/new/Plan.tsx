import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import { formatBytes, formatDuration, formatNumber } from "@/ui/format";
import { Problems, type ConfigProblem } from "@/ui/Problems";

const texts = strings.newExperiment;
const fields = texts.fields;

type ExperimentPlan = Schemas["ExperimentPlan"];
type Service = Schemas["PlannedService"];

/** What a configuration would start. */
export function Plan({ plan, onJump }: { plan: ExperimentPlan; onJump: (problem: ConfigProblem) => void }) {
  const { limits } = plan;
  const trials = [
    limits.maxTrialNumber === null ? fields.unlimited : fields.atMost(formatNumber(limits.maxTrialNumber)),
    fields.atOnce(limits.trialConcurrency),
  ];
  const time = [
    limits.maxExperimentDurationS === null
      ? ""
      : fields.forAll(formatDuration(limits.maxExperimentDurationS)),
    limits.maxTrialDurationS === null ? "" : fields.forEach(formatDuration(limits.maxTrialDurationS)),
  ].filter(Boolean);
  return (
    <>
      <dl className="plan">
        {plan.name === "" ? null : <Fact name={fields.name}>{plan.name}</Fact>}
        <Fact name={fields.tuner}>{plan.tuner}</Fact>
        <Fact name={fields.assessor}>{plan.assessor ?? fields.none}</Fact>
        <Fact name={fields.goal}>{fields.goals[plan.optimizeMode] ?? plan.optimizeMode}</Fact>
        <Fact name={fields.trials}>{trials.join(", ")}</Fact>
        <Fact name={fields.time}>{time.join(", ") || fields.unlimited}</Fact>
        <Fact name={fields.parameters}>
          {plan.parameters.map(({ name }) => name).join(", ") || strings.common.notAvailable} (
          {plan.parameterSets === null ? fields.endless : fields.sets(formatNumber(plan.parameterSets))})
        </Fact>
        {plan.feasibleShare === null ? null : (
          <Fact name={fields.constraints}>
            {fields.feasible(formatNumber(Math.round(plan.feasibleShare * 1000) / 10))}
          </Fact>
        )}
        {plan.services.map((service, at) => (
          <ServiceFacts key={at} service={service} />
        ))}
        <Fact name={fields.folder}>
          <code>{plan.experimentWorkingDirectory}</code>
        </Fact>
      </dl>
      {plan.warnings.length === 0 ? null : (
        <section>
          <h3>{texts.warnings}</h3>
          <Problems problems={plan.warnings} onJump={onJump} look="warn" />
        </section>
      )}
    </>
  );
}

/** A need that differs from trial to trial is a text. */
const shown = (need: number | string) => (typeof need === "number" ? formatNumber(need) : need);

function ServiceFacts({ service }: { service: Service }) {
  const each = [
    service.trialGpuNumber === null ? "" : fields.gpus(shown(service.trialGpuNumber)),
    service.trialCpuNumber === null ? "" : fields.cpus(shown(service.trialCpuNumber)),
    typeof service.trialMemorySize === "number"
      ? formatBytes(service.trialMemorySize * 1024 * 1024)
      : service.trialMemorySize,
  ].filter(Boolean);
  return (
    <>
      <Fact name={fields.platform}>{service.platform}</Fact>
      <Fact name={fields.command}>
        <code>{service.trialCommand}</code>
      </Fact>
      <Fact name={fields.code}>
        <code>{service.trialCodeDirectory}</code>
        {service.codeFiles === null
          ? null
          : ` (${fields.codeSize(formatNumber(service.codeFiles), formatBytes(service.codeSize))})`}
      </Fact>
      <Fact name={fields.machines}>{service.machines.join(", ") || fields.thisMachine}</Fact>
      {each.length === 0 ? null : <Fact name={fields.perTrial}>{each.join(", ")}</Fact>}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
