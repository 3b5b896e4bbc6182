/**
 * The dialog that adds a trial with parameters of the user's: those of another trial, edited. The new trial may
 * continue from a checkpoint of the other trial.
 */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState, type SubmitEvent } from "react";
import { Link } from "wouter";
import { ApiError, answerOf, api } from "@/api/client";
import { profileQuery } from "@/data/experiment";
import { RequestKeys } from "@/data/requestKeys";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { draftsOf, fieldsOf, read, type Drafts } from "./drafts";
import { whereOf, type ForkPoint } from "./fork";
import { ParameterField } from "./ParameterField";
import { isRecord, readSpace, type Space } from "./space";
import "./customTrial.css";

const text = strings.customTrial;
const ENDED = new Set(["DONE", "ERROR", "STOPPED", "VIEWED"]);

/** Why an experiment takes no further trial, in one sentence, or null. */
export function whyNoTrial({ status, served }: { status: string; served: boolean }): string | null {
  const continues = status === "DONE" && served; // with a trial, if its limit is raised
  return ENDED.has(status) && !continues ? text.ended(status) : null;
}

interface CustomTrialProps {
  id: string;
  /** The trial whose parameters the form begins with. */
  base?: { sequence: number; parameters: unknown } | undefined;
  /** The checkpoint of the base from which the trial continues. */
  fork?: ForkPoint | undefined;
  onClose: () => void;
}

export function CustomTrial({ id, base, fork, onClose }: CustomTrialProps) {
  const profile = useQuery(profileQuery(id));
  const titleOf = fork === undefined ? text.titleOf : text.forkTitle;
  const title = base === undefined ? text.title : titleOf(base.sequence);
  const [space, setSpace] = useState<Space>(); // the form keeps the space that it has begun with
  if (space === undefined && profile.data !== undefined) setSpace(spaceFor(profile.data.searchSpace, base));
  if (space !== undefined && profile.data !== undefined)
    return (
      <Form
        id={id}
        title={title}
        space={space}
        parameters={isRecord(base?.parameters) ? base.parameters : {}}
        fork={fork}
        refused={whyNoTrial(profile.data)}
        onClose={onClose}
      />
    );
  return (
    <Dialog title={title} onClose={onClose} narrow>
      {profile.isError ? (
        <Failure error={profile.error} onRetry={() => void profile.refetch()} />
      ) : (
        <p className="soft">{strings.common.loading}</p>
      )}
    </Dialog>
  );
}

/** A space that shares no name with the parameter set (a tuner with a format of its own) says nothing of it. */
function spaceFor(written: unknown, base: CustomTrialProps["base"]): Space {
  const space = readSpace(written);
  const parameters = base?.parameters;
  if (!isRecord(parameters) || space.some(([name]) => name in parameters)) return space;
  return [];
}

interface FormProps {
  id: string;
  title: string;
  space: Space;
  parameters: Readonly<Record<string, unknown>>;
  fork: ForkPoint | undefined;
  refused: string | null;
  onClose: () => void;
}

function Form({ id, title, space, parameters, fork, refused, onClose }: FormProps) {
  const [drafts, setDrafts] = useState<Drafts>(() => draftsOf(space, parameters));
  const fields = useMemo(() => fieldsOf(space, parameters, drafts), [space, parameters, drafts]);
  const reading = useMemo(() => read(fields, drafts), [fields, drafts]);
  const faults = Object.keys(reading.faults).length;
  const warnings = Object.keys(reading.warnings).length;
  const [raiseLimit, setRaiseLimit] = useState(false);
  const adding = useAdding(id, fork, raiseLimit);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (faults === 0) adding.mutate(reading.parameters);
  };
  const formId = `custom-trial-${id}`;
  const done = adding.data;
  const footer =
    done === undefined ? (
      <>
        <Button onClick={onClose}>{strings.common.cancel}</Button>
        <Button
          type="submit"
          form={formId}
          look="primary"
          disabled={refused !== null || faults > 0 || fields.length === 0 || adding.isPending}
        >
          {warnings > 0 ? text.submitAnyway : text.submit}
        </Button>
      </>
    ) : (
      <>
        <Button onClick={() => adding.reset()}>{text.another}</Button>
        <Button look="primary" onClick={onClose}>
          {strings.common.close}
        </Button>
      </>
    );
  return (
    <Dialog title={title} onClose={onClose} footer={footer}>
      <form id={formId} className="stack" onSubmit={submit}>
        {refused === null ? (
          <p className="soft">{fork === undefined ? text.explanation : text.fork(whereOf(fork))}</p>
        ) : (
          <p className="note warn">{refused}</p>
        )}
        {fields.length === 0 ? <p>{text.noParameters}</p> : null}
        <div className="parameter-fields">
          {fields.map((field) => (
            <ParameterField
              key={field.path}
              field={field}
              value={drafts[field.path] ?? ""}
              fault={reading.faults[field.path]}
              warning={reading.warnings[field.path]}
              onChange={(value) => {
                setDrafts((before) => ({ ...before, [field.path]: value }));
                adding.reset();
              }}
            />
          ))}
        </div>
        <label className="choice">
          <input
            type="checkbox"
            checked={raiseLimit}
            onChange={(event) => {
              setRaiseLimit(event.target.checked);
              adding.reset();
            }}
          />
          {text.raiseLimit}
        </label>
        <div role="status" aria-live="polite" className="stack">
          {faults > 0 ? <p className="note bad">{text.broken(faults)}</p> : null}
          {faults === 0 && warnings > 0 ? <p className="note warn">{text.warned(warnings)}</p> : null}
          {done === undefined ? null : (
            <p className="note">
              {text.added(done.sequence)}{" "}
              <Link href={`~/experiments/${id}/trials/${done.id}`}>{text.show}</Link>
            </p>
          )}
        </div>
        {adding.isError ? <Failure error={withoutCommand(adding.error)} /> : null}
      </form>
    </Dialog>
  );
}

/** The error that a limit is reached, which names an option of the command line, for the box of this form. */
const withoutCommand = (error: Error) =>
  error instanceof ApiError
    ? new ApiError(error.status, error.message.replace(/ with --raise-limit .*$/, ""), error.problems)
    : error;

/** Add a trial with these parameters, or a fork with them. */
function useAdding(id: string, fork: ForkPoint | undefined, raiseLimit: boolean) {
  const [keys] = useState(() => new RequestKeys());
  return useMutation({
    mutationFn: (parameters: Readonly<Record<string, unknown>>) => {
      const header = { "Idempotency-Key": keys.of(parameters) };
      if (fork === undefined)
        return answerOf(
          api.POST("/api/v1/experiments/{id}/trials", {
            params: { path: { id }, header },
            body: { parameters, raiseLimit },
          }),
        );
      const { attempt, number } = fork.checkpoint;
      return answerOf(
        api.POST("/api/v1/experiments/{id}/trials/{trialId}/fork", {
          params: { path: { id, trialId: fork.trialId }, header },
          body: {
            parameters,
            raiseLimit,
            ...(fork.newest ? {} : { checkpoint: { attempt, number } }),
          },
        }),
      );
    },
    onSuccess: () => keys.answered(),
  });
}
