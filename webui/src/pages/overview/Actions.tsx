import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { answerOf, api } from "@/api/client";
import { profileQuery, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { downloadFrom } from "@/ui/download";
import { formatNumber } from "@/ui/format";
import { Menu } from "@/ui/Menu";
import { complain, say } from "@/ui/toasts";
import { DeleteDialog, StopDialog } from "./ActionDialogs";
import { changeItems, Changes, type Change } from "./change/Changes";
import { downloadSummary } from "./summary";

const text = strings.overview.actions;
const MOVING = new Set(["INITIALIZED", "RUNNING", "DRAINING"]);

/** What can be done with the whole experiment. */
export function Actions({ id, profile }: { id: string; profile: Profile }) {
  const [dialog, setDialog] = useState<"stop" | "delete" | Change | null>(null);
  const client = useQueryClient();
  const [, go] = useLocation();
  const path = { id };
  const archived = useQuery({
    queryKey: ["list", "archived", id],
    queryFn: async ({ signal }) => {
      const { experiments } = await answerOf(api.GET("/api/v1/experiments", { signal }));
      return experiments.find((each) => each.id === id)?.archived ?? false;
    },
  });
  const readAgain = () => void client.invalidateQueries({ queryKey: profileQuery(id).queryKey });
  const resume = useMutation({
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/{id}/resume", { params: { path } })),
    onSuccess: () => say(text.resumed),
    onError: complain,
    onSettled: readAgain,
  });
  const rerun = useMutation({
    mutationFn: async () => {
      // A finished experiment is not open after a restart of the server.
      if (!profile.served) await answerOf(api.POST("/api/v1/experiments/{id}/resume", { params: { path } }));
      return answerOf(api.POST("/api/v1/experiments/{id}/rerun", { params: { path } }));
    },
    onSuccess: ({ trials }) => say(text.rerunDone(trials.length)),
    onError: complain,
    onSettled: readAgain,
  });
  const setArchived = (value: boolean) =>
    answerOf(api.PATCH("/api/v1/experiments/{id}/labels", { params: { path }, body: { archived: value } }));
  const listAgain = () => void client.invalidateQueries({ queryKey: ["list"] });
  const archive = useMutation({
    mutationFn: setArchived,
    onSuccess: (_, value) =>
      say(value ? text.archived : text.unarchived, () => setArchived(!value).finally(listAgain)),
    onError: complain,
    onSettled: listAgain,
  });
  const moving = MOVING.has(profile.status) && profile.served;
  const failed = (profile.counts.FAILED ?? 0) - profile.retried;
  const trialsAddress = `/api/v1/experiments/${encodeURIComponent(id)}/trials/export`;
  return (
    <div className="row" role="group" aria-label={text.label}>
      {failed > 0 && (profile.served || profile.status === "DONE") ? (
        <Button disabled={rerun.isPending} onClick={() => rerun.mutate()}>
          {text.rerun(formatNumber(failed))}
        </Button>
      ) : null}
      {moving ? (
        <Button look="danger" onClick={() => setDialog("stop")}>
          {text.stop}
        </Button>
      ) : (
        <Button disabled={resume.isPending} onClick={() => resume.mutate()}>
          {text.resume}
        </Button>
      )}
      <Menu
        label="⋯"
        name={text.more}
        items={[
          ...changeItems(profile, setDialog),
          { label: text.csv, onSelect: () => downloadFrom(`${trialsAddress}?format=csv`, `${id}.csv`) },
          { label: text.json, onSelect: () => downloadFrom(`${trialsAddress}?format=json`, `${id}.json`) },
          { label: text.summary, onSelect: () => void downloadSummary(id).catch(complain) },
          {
            label: archived.data === true ? text.unarchive : text.archive,
            disabled:
              moving && archived.data !== true
                ? text.stopFirst
                : archived.data === undefined || archive.isPending,
            onSelect: () => archive.mutate(archived.data !== true),
          },
          {
            label: text.delete,
            danger: true,
            disabled: moving && text.stopFirst,
            onSelect: () => setDialog("delete"),
          },
        ]}
      />
      {dialog === "space" || dialog === "tuner" || dialog === "import" ? (
        <Changes id={id} profile={profile} change={dialog} onClose={() => setDialog(null)} />
      ) : null}
      {dialog === "stop" ? (
        <StopDialog id={id} profile={profile} onClose={() => setDialog(null)} onDone={readAgain} />
      ) : null}
      {dialog === "delete" ? (
        <DeleteDialog id={id} profile={profile} onClose={() => setDialog(null)} onDone={() => go("~/")} />
      ) : null}
    </div>
  );
}
