import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";

/** Why nothing of the experiment can be changed, in one sentence, or null. */
export function whyFixed(profile: Profile): string | null {
  if (profile.status === "VIEWED") return strings.overview.edit.viewed;
  return profile.served && profile.status !== "STOPPED" ? null : strings.overview.edit.notServed;
}
