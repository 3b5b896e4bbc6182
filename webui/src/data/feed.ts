/** What has happened to an experiment or a trial: the newest, kept up by a cursor, and as much before as is wanted. */
import { useMutation, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { answerOf, api, type Schemas } from "@/api/client";

export type FeedEntry = Schemas["FeedEntry"];

interface FeedSoFar {
  readonly entries: readonly FeedEntry[];
  readonly nextBefore: number | null;
  readonly nextAfter: number;
}

/** Events of one trial, or a single event that is about no trial. */
export interface FeedGroup {
  readonly newest: FeedEntry;
  readonly earlier: readonly FeedEntry[];
}

/** The entries, newest first, with those of one trial put together where its newest stands. */
export function byTrial(entries: readonly FeedEntry[]): FeedGroup[] {
  const groups: { newest: FeedEntry; earlier: FeedEntry[] }[] = [];
  const known = new Map<string, { newest: FeedEntry; earlier: FeedEntry[] }>();
  for (const entry of entries) {
    const found = entry.trialId === null ? undefined : known.get(entry.trialId);
    if (found !== undefined) {
      found.earlier.push(entry);
      continue;
    }
    const group = { newest: entry, earlier: [] };
    groups.push(group);
    if (entry.trialId !== null) known.set(entry.trialId, group);
  }
  return groups;
}

const PAGE = 100;
const CATCHING_UP = 200;
const MOST = 2000;

const keyOf = (id: string, trialId: string | undefined) => ["live", id, "feed", trialId ?? null] as const;

function read(
  id: string,
  query: { before?: number; after?: number; limit: number; trialId?: string | undefined },
  signal?: AbortSignal,
) {
  const { trialId, ...rest } = query;
  const wanted = trialId === undefined ? rest : { ...rest, trialId };
  return answerOf(
    api.GET("/api/v1/experiments/{id}/feed", {
      params: { path: { id }, query: wanted },
      ...(signal === undefined ? {} : { signal }),
    }),
  );
}

/** What came after what is known; begun anew where that is too much to catch up with. */
async function newest(
  client: QueryClient,
  id: string,
  trialId: string | undefined,
  signal: AbortSignal,
): Promise<FeedSoFar> {
  const known = client.getQueryData<FeedSoFar>(keyOf(id, trialId));
  if (known !== undefined) {
    const more = await read(id, { after: known.nextAfter, limit: CATCHING_UP, trialId }, signal);
    if (more.entries.length < CATCHING_UP) {
      const entries = more.entries.length === 0 ? known.entries : [...more.entries, ...known.entries];
      const kept = entries.length > MOST ? entries.slice(0, MOST) : entries;
      const nextBefore = kept.length < entries.length ? (kept.at(-1)?.number ?? null) : known.nextBefore;
      return { entries: kept, nextBefore, nextAfter: more.nextAfter };
    }
  }
  return read(id, { limit: PAGE, trialId }, signal);
}

export function useFeed(id: string, trialId?: string) {
  const client = useQueryClient();
  const key = keyOf(id, trialId);
  const feed = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => newest(client, id, trialId, signal),
  });
  const older = useMutation({
    mutationFn: async () => {
      const before = client.getQueryData<FeedSoFar>(key)?.nextBefore;
      if (before === null || before === undefined) return;
      const page = await read(id, { before, limit: PAGE, trialId });
      client.setQueryData<FeedSoFar>(
        key,
        (known) =>
          known && {
            ...known,
            entries: [...known.entries, ...page.entries],
            nextBefore: page.nextBefore,
          },
      );
    },
  });
  return { feed, older };
}
