import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { changeTags, readIds, tagsQuery } from "@/data/annotations";
import type { TrialsQuestion } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { TagField } from "@/ui/TagField";
import { complain, say } from "@/ui/toasts";
import type { Selection } from "./view";

const text = strings.annotations.bulk;

interface TagDialogProps {
  id: string;
  question: TrialsQuestion;
  selection: Selection;
  /** How many are selected. */
  count: number;
  onDone: () => void;
  onClose: () => void;
}

/** Adds tags to the selected trials, and removes others from them. */
export function TagDialog({ id, question, selection, count, onDone, onClose }: TagDialogProps) {
  const client = useQueryClient();
  const [add, setAdd] = useState<readonly string[]>([]);
  const [remove, setRemove] = useState<readonly string[]>([]);
  const known = useQuery(tagsQuery(id)).data ?? [];
  const changing = useMutation({
    mutationFn: async () => {
      const { all, ids } = selection;
      const chosen = all ? (await readIds(id, question)).filter((one) => !ids.has(one)) : [...ids];
      return changeTags(client, id, chosen, add, remove);
    },
    onSuccess: (changed) => {
      say(text.done(changed));
      onDone();
    },
    onError: complain,
  });
  const toggle = (tag: string) =>
    setRemove(remove.includes(tag) ? remove.filter((other) => other !== tag) : [...remove, tag]);
  const footer = (
    <>
      <Button onClick={onClose}>{strings.common.cancel}</Button>
      <Button
        look="primary"
        disabled={changing.isPending || (add.length === 0 && remove.length === 0)}
        onClick={() => changing.mutate()}
      >
        {text.action}
      </Button>
    </>
  );
  return (
    <Dialog title={text.title(count)} onClose={onClose} footer={footer} narrow>
      <div className="stack-small">
        <h3>{text.add}</h3>
        <TagField
          tags={add}
          known={known}
          onChange={(tags) => {
            setAdd(tags);
            setRemove(remove.filter((tag) => !tags.includes(tag)));
          }}
        />
        <h3>{text.remove}</h3>
        <p className="soft">{known.length === 0 ? text.noneToRemove : text.removeHint}</p>
        <div className="tag-list" role="group" aria-label={text.remove}>
          {known
            .filter((tag) => !add.includes(tag))
            .map((tag) => (
              <button
                key={tag}
                type="button"
                className="tag"
                aria-pressed={remove.includes(tag)}
                onClick={() => toggle(tag)}
              >
                {tag}
              </button>
            ))}
        </div>
      </div>
    </Dialog>
  );
}
