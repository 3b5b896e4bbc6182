/** What users add to an experiment: notes and tags of trials, and saved views of its trials. */
import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { answerOf, api, request, type Schemas } from "@/api/client";
import { exportAddress, trialQuery, type TrialsQuestion } from "./trials";

export type SavedView = Schemas["SavedView"];
export type ViewContent = Schemas["ViewContent"];

const AT_ONCE = 10_000; // trials in one request, the server's limit

/** The tags of all trials, the most frequent first. Read again on purpose, since counting takes the server time. */
export const tagsQuery = (id: string) =>
  queryOptions({
    queryKey: ["static", id, "tags"],
    queryFn: async ({ signal }) => {
      const { tags } = await answerOf(
        api.GET("/api/v1/experiments/{id}/tags", { params: { path: { id } }, signal }),
      );
      return tags.map(({ tag }) => tag);
    },
  });

export function readTagsAgain(client: QueryClient, id: string): void {
  void client.invalidateQueries({ queryKey: tagsQuery(id).queryKey });
}

/** Stores a note and tags, and shows them at once. */
export async function annotate(
  client: QueryClient,
  id: string,
  trialId: string,
  body: { note: string; tags: readonly string[] },
): Promise<void> {
  const stored = await answerOf(
    api.PATCH("/api/v1/experiments/{id}/trials/{trialId}/annotation", {
      params: { path: { id, trialId } },
      body: { note: body.note, tags: [...body.tags] },
    }),
  );
  client.setQueryData(trialQuery(id, trialId).queryKey, (trial) =>
    trial === undefined ? trial : { ...trial, ...stored },
  );
  readTagsAgain(client, id);
}

/** Adds and removes tags of these trials; returns how many trials there were. */
export async function changeTags(
  client: QueryClient,
  id: string,
  trialIds: readonly string[],
  add: readonly string[],
  remove: readonly string[],
): Promise<number> {
  for (let begin = 0; begin < trialIds.length; begin += AT_ONCE)
    await answerOf(
      api.POST("/api/v1/experiments/{id}/tags", {
        params: { path: { id } },
        body: { trialIds: trialIds.slice(begin, begin + AT_ONCE), add: [...add], remove: [...remove] },
      }),
    );
  readTagsAgain(client, id);
  void client.invalidateQueries({ queryKey: ["live", id, "trials"] });
  return trialIds.length;
}

/** The ids of all trials that answer the question, however many. */
export async function readIds(id: string, question: TrialsQuestion): Promise<readonly string[]> {
  const answer = await request(`${exportAddress(id, "json", question)}&columns=id`);
  const { trials } = (await answer.json()) as { trials: readonly { id: string }[] };
  return trials.map((trial) => trial.id);
}

export const viewsQuery = (id: string) =>
  queryOptions({
    queryKey: ["live", id, "views"],
    queryFn: async ({ signal }) => {
      const params = { path: { id } };
      return (await answerOf(api.GET("/api/v1/experiments/{id}/views", { params, signal }))).views;
    },
  });

export function saveView(id: string, name: string, content: ViewContent): Promise<SavedView> {
  return answerOf(
    api.POST("/api/v1/experiments/{id}/views", { params: { path: { id } }, body: { name, content } }),
  );
}

export function changeView(
  id: string,
  viewId: number,
  body: { name?: string; content?: ViewContent },
): Promise<SavedView> {
  const params = { path: { id, viewId } };
  return answerOf(api.PATCH("/api/v1/experiments/{id}/views/{viewId}", { params, body }));
}

export function removeView(id: string, viewId: number): Promise<unknown> {
  const params = { path: { id, viewId } };
  return answerOf(api.DELETE("/api/v1/experiments/{id}/views/{viewId}", { params }));
}
