/** The parameters of the trial below the pointer, read when the pointer rests on it. */
import { answerOf, api } from "@/api/client";
import { queryClient } from "@/live/queries";
import { addRows } from "@/ui/chart/tip";
import { flat, shownValue } from "@/ui/trial/flat";

const REST_MS = 150; // the pointer passes over many trials on its way
const MOST = 14;

/** Add the trial's parameters to the tooltip, but for those that it has; nothing if the pointer has moved on. */
export function addParameters(
  box: HTMLElement,
  id: string,
  sequence: number,
  shown: ReadonlySet<string>,
): void {
  setTimeout(() => {
    if (!box.isConnected) return;
    queryClient
      .query({
        queryKey: ["static", id, "tip", sequence],
        queryFn: ({ signal }) =>
          answerOf(
            api.GET("/api/v1/experiments/{id}/trials", {
              params: { path: { id }, query: { filter: `sequence:${sequence}`, limit: 1 } },
              signal,
            }),
          ),
      })
      .then(
        ({ trials }) => {
          const rows = flat(trials[0]?.parameters).filter(([name]) => !shown.has(name));
          addRows(
            box,
            rows.slice(0, MOST).map(([name, value]) => [name, shownValue(value)]),
          );
        },
        () => undefined, // the tooltip has what it had
      );
  }, REST_MS);
}
