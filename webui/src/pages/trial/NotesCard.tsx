import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { annotate, tagsQuery } from "@/data/annotations";
import type { Trial } from "@/data/trials";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { TagChips } from "@/ui/TagChips";
import { TagField } from "@/ui/TagField";
import { complain } from "@/ui/toasts";

const text = strings.annotations;
const LONGEST_NOTE = 4000;

interface NotesCardProps {
  id: string;
  trial: Trial;
}

/** What users have written about the trial. */
export function NotesCard({ id, trial }: NotesCardProps) {
  const title = useId();
  const [editing, setEditing] = useState(false);
  return (
    <section className="card stack-small" aria-labelledby={title}>
      <div className="spread">
        <h3 id={title}>{text.title}</h3>
        {editing ? null : (
          <Button small onClick={() => setEditing(true)}>
            {text.edit}
          </Button>
        )}
      </div>
      {editing ? (
        <Form id={id} trial={trial} onClose={() => setEditing(false)} />
      ) : (
        <>
          {trial.userNote === "" ? (
            <p className="soft">{text.noNote}</p>
          ) : (
            <p className="user-note">{trial.userNote}</p>
          )}
          <div className="tag-list" role="group" aria-label={text.tags}>
            {trial.tags.length === 0 ? <span className="soft">{text.noTags}</span> : null}
            <TagChips tags={trial.tags} />
          </div>
        </>
      )}
    </section>
  );
}

function Form({ id, trial, onClose }: NotesCardProps & { onClose: () => void }) {
  const client = useQueryClient();
  const [note, setNote] = useState(trial.userNote);
  const [tags, setTags] = useState<readonly string[]>(trial.tags);
  const known = useQuery(tagsQuery(id)).data ?? [];
  const saving = useMutation({
    mutationFn: () => annotate(client, id, trial.id, { note: note.trim(), tags }),
    onSuccess: onClose,
    onError: complain,
  });
  const left = LONGEST_NOTE - note.length;
  return (
    <form
      className="stack-small"
      onSubmit={(event) => {
        event.preventDefault();
        saving.mutate();
      }}
    >
      <label className="field">
        {text.note}
        <textarea
          className="input"
          rows={5}
          maxLength={LONGEST_NOTE}
          // eslint-disable-next-line jsx-a11y/no-autofocus -- the button that had the focus is gone
          autoFocus
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
        {left < LONGEST_NOTE / 10 ? <span className="soft number">{text.left(left)}</span> : null}
      </label>
      <div className="field" role="group" aria-label={text.tags}>
        <span>{text.tags}</span>
        <TagField tags={tags} known={known} onChange={setTags} />
      </div>
      <div className="row">
        <Button type="submit" look="primary" disabled={saving.isPending}>
          {text.save}
        </Button>
        <Button onClick={onClose}>{strings.common.cancel}</Button>
      </div>
    </form>
  );
}
