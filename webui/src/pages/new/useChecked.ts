import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { answerOf, api, type Schemas } from "@/api/client";
import type { Draft } from "./draft";

export type Checked = Schemas["Validated"];

const PAUSE_MS = 300;

/** What the server says of a configuration, once its writer has paused. `current`: it is about this text. */
export function useChecked({ text, cwd }: Draft): {
  checked: Checked | undefined;
  current: boolean;
  error: Error | null;
} {
  const [asked, setAsked] = useState({ text, cwd });
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ text, cwd }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, cwd]);
  const answer = useQuery({
    queryKey: ["static", "validate", asked.cwd, asked.text],
    queryFn: ({ signal }) =>
      answerOf(
        api.POST("/api/v1/validate", { body: { text: asked.text, cwd: asked.cwd.trim() || null }, signal }),
      ),
    enabled: asked.text.trim() !== "",
    placeholderData: keepPreviousData,
    gcTime: 5000, // texts are long, and rarely come again
  });
  const same = asked.text === text && asked.cwd === cwd;
  return {
    checked: text.trim() === "" ? undefined : answer.data,
    current: same && !answer.isFetching && !answer.isPlaceholderData,
    error: answer.error,
  };
}
