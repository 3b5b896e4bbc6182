import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { answerOf, api } from "@/api/client";
import { experimentsQuery, nameOf, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { TagChips } from "@/ui/TagChips";
import { complain } from "@/ui/toasts";

const texts = strings.experiments;

/** The tags of an experiment; a click makes them a field: Enter saves, Escape leaves them as they were. */
export function Tags({ item }: { item: Summary }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<string | null>(null);
  const [focused, setFocused] = useState(false); // whether the button takes over the focus of the field

  const save = async () => {
    if (draft === null) return;
    setDraft(null);
    const tags = [...new Set(draft.split(",").map((tag) => tag.trim()))].filter(Boolean);
    if (tags.join() === item.tags.join()) return;
    const put = (wanted: readonly string[]) =>
      client.setQueryData(experimentsQuery.queryKey, (all) =>
        all?.map((other) => (other.id === item.id ? { ...other, tags: [...wanted] } : other)),
      );
    put(tags);
    try {
      const params = { path: { id: item.id } };
      await answerOf(api.PATCH("/api/v1/experiments/{id}/labels", { params, body: { tags } }));
    } catch (error) {
      put(item.tags);
      complain(error);
    }
  };

  if (draft !== null)
    return (
      <input
        className="input tags-input"
        aria-label={texts.tagsOf(nameOf(item))}
        // eslint-disable-next-line jsx-a11y/no-autofocus -- it takes the place of the button just pressed
        autoFocus
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onBlur={() => {
          setFocused(false);
          void save();
        }}
        onKeyDown={(event) => {
          setFocused(true);
          if (event.key === "Enter") void save();
          else if (event.key === "Escape") setDraft(null);
          else return;
          event.preventDefault();
        }}
      />
    );
  return (
    <button
      type="button"
      className="tags"
      // eslint-disable-next-line jsx-a11y/no-autofocus -- the field that had the focus is gone
      autoFocus={focused}
      aria-label={`${texts.editTags(nameOf(item))}: ${item.tags.join(", ") || strings.common.notAvailable}`}
      title={item.tags.join(", ")}
      onClick={() => setDraft(item.tags.join(", "))}
    >
      <TagChips tags={item.tags} />
      {item.tags.length === 0 ? <span className="tags-none soft">{texts.addTags}</span> : null}
    </button>
  );
}
