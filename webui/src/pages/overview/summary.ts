/** NNI's `experiment.json`. */
import { answerOf, api, request } from "@/api/client";
import { download } from "@/ui/download";

/** The experiment and all of its trials, as NNI's routes tell them; blobs stay out of the script's memory. */
export async function downloadSummary(id: string): Promise<void> {
  const { urlPrefix } = await answerOf(api.GET("/api/v1/server"));
  const prefix = urlPrefix === "" ? "" : `/${urlPrefix}`;
  const part = async (name: string) =>
    (await request(`${prefix}/e/${encodeURIComponent(id)}/api/v1/nni/${name}`)).blob();
  const [profile, trials] = [await part("experiment"), await part("trial-jobs")];
  const whole = new Blob(['{"experimentParameters":', profile, ',"trialMessage":', trials, "}\n"]);
  download("experiment.json", whole, "application/json");
}
