/** What can be done to several experiments at once. */
import { answerOf, api, request } from "@/api/client";
import { deleteExperiment, hasEnded, nameOf, type Summary, type WayToStop } from "@/data/experiments";
import { strings } from "@/strings";
import { downloadBlob } from "@/ui/download";

const texts = strings.experiments;

export type ActionName = "stop" | "archive" | "unarchive" | "export" | "delete";
export const ACTIONS: readonly ActionName[] = ["stop", "archive", "unarchive", "export", "delete"];

export interface Options {
  way: WayToStop;
  leaveUnreachable: boolean; // of delete
}

export interface Outcome {
  done: Summary[];
  failed: { item: Summary; error: unknown }[];
  notes: string[]; // sentences on what was done but for something
}

const AT_ONCE = 4;

/** Whether the action has any effect on the experiment. */
export function applies(action: ActionName, item: Summary): boolean {
  switch (action) {
    case "stop":
      return !hasEnded(item);
    case "delete":
      return hasEnded(item);
    case "archive":
      return !item.archived;
    case "unarchive":
      return item.archived;
    case "export":
      return true;
  }
}

/** Does it to each, a few at a time; one that fails does not stop the rest. */
export async function perform(
  action: ActionName,
  items: readonly Summary[],
  options: Options,
  onProgress: (done: number) => void,
): Promise<Outcome> {
  const outcome: Outcome = { done: [], failed: [], notes: [] };
  const parts: BlobPart[] = [];
  const waiting = [...items];
  const work = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      try {
        if (action === "export") parts.push(...(await exported(item, parts.length === 0)));
        else outcome.notes.push(...(await act(action, item, options)));
        outcome.done.push(item);
      } catch (error) {
        outcome.failed.push({ item, error });
      }
      onProgress(outcome.done.length + outcome.failed.length);
    }
  };
  await Promise.all(Array.from({ length: action === "export" ? 1 : AT_ONCE }, work));
  if (parts.length > 0) {
    const [only] = outcome.done;
    const name = outcome.done.length === 1 && only !== undefined ? only.id : "experiments";
    downloadBlob(`${name}.json`, new Blob([...parts, "\n]\n"], { type: "application/json" }));
  }
  return outcome;
}

async function act(
  action: Exclude<ActionName, "export">,
  item: Summary,
  options: Options,
): Promise<string[]> {
  const path = { id: item.id };
  switch (action) {
    case "stop": {
      const body = { detach: options.way === "detach", save: options.way === "save" };
      const stopped = await answerOf(api.POST("/api/v1/experiments/{id}/stop", { params: { path }, body }));
      const notes = [...stopped.left];
      if (stopped.stillRunning.length > 0)
        notes.push(texts.stillRunning(nameOf(item), stopped.stillRunning.length));
      if (stopped.unsaved.length > 0) notes.push(texts.unsaved(nameOf(item), stopped.unsaved.length));
      if (stopped.serverLeaves) notes.push(texts.serverLeaves);
      return notes;
    }
    case "delete":
      return deleteExperiment(item, options.leaveUnreachable);
    case "archive":
    case "unarchive": {
      const body = { archived: action === "archive" };
      await answerOf(api.PATCH("/api/v1/experiments/{id}/labels", { params: { path }, body }));
      return [];
    }
  }
}

/** Its results as the server gives them, which may be long: they stay out of the script's memory. */
async function exported(item: Summary, first: boolean): Promise<BlobPart[]> {
  const answer = await request(`/api/v1/experiments/${item.id}/export`);
  const about = JSON.stringify({ id: item.id, name: item.name }).slice(0, -1);
  return [first ? "[\n" : ",\n", `${about},"results":`, await answer.blob(), "}"];
}
