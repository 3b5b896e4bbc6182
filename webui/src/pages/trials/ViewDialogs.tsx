import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { changeView, removeView, saveView, viewsQuery, type SavedView } from "@/data/annotations";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { complain, say } from "@/ui/toasts";
import { contentOf, summaryOf } from "./savedViews";
import type { View } from "./view";

const text = strings.views;
const LONGEST_NAME = 60;

interface ViewDialogProps {
  id: string;
  view: View;
  onClose: () => void;
}

/** A change of the saved views, which are read again after it. */
function useChange<T, R>(id: string, change: (wanted: T) => Promise<R>, onSuccess: (done: R) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: (done) => {
      void client.invalidateQueries({ queryKey: viewsQuery(id).queryKey });
      onSuccess(done);
    },
    onError: complain,
  });
}

/** Asks for the name under which the present view is saved. */
export function SaveViewDialog({ id, view, onClose }: ViewDialogProps) {
  const [name, setName] = useState("");
  const saving = useChange(
    id,
    (wanted: string) => saveView(id, wanted, contentOf(view)),
    (saved) => {
      say(text.saved(saved.name));
      onClose();
    },
  );
  const wanted = name.trim();
  return (
    <Dialog title={text.saveTitle} onClose={onClose} narrow>
      <form
        className="stack-small"
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted !== "") saving.mutate(wanted);
        }}
      >
        <p>{text.saveText}</p>
        <label className="field">
          {text.name}
          <input
            className="input"
            maxLength={LONGEST_NAME}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        <div className="row">
          <Button type="submit" look="primary" disabled={wanted === "" || saving.isPending}>
            {strings.annotations.save}
          </Button>
          <Button onClick={onClose}>{strings.common.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** All saved views, to be renamed, replaced and deleted. */
export function ViewsDialog({ id, view, onClose }: ViewDialogProps) {
  const views = useQuery(viewsQuery(id));
  return (
    <Dialog title={text.manageTitle} onClose={onClose}>
      {views.isError ? <Failure error={views.error} onRetry={() => void views.refetch()} /> : null}
      {views.data?.length === 0 ? <p className="soft">{text.none}</p> : null}
      <ul className="saved-views">
        {views.data?.map((saved) => (
          <SavedViewItem key={saved.id} id={id} view={view} saved={saved} />
        ))}
      </ul>
    </Dialog>
  );
}

function SavedViewItem({ id, view, saved }: Omit<ViewDialogProps, "onClose"> & { saved: SavedView }) {
  const [name, setName] = useState(saved.name);
  const wanted = name.trim();
  const renaming = useChange(
    id,
    () => changeView(id, saved.id, { name: wanted }),
    () => undefined,
  );
  const replacing = useChange(
    id,
    () => changeView(id, saved.id, { content: contentOf(view) }),
    () => say(text.replaced(saved.name)),
  );
  const removing = useChange(
    id,
    () => removeView(id, saved.id),
    () => undefined,
  );
  return (
    <li>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted !== "" && wanted !== saved.name) renaming.mutate(undefined);
        }}
      >
        <input
          className="input grow"
          aria-label={text.renameOf(saved.name)}
          maxLength={LONGEST_NAME}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <Button type="submit" small disabled={wanted === "" || wanted === saved.name}>
          {text.rename}
        </Button>
        <Button small title={text.replaceHint(saved.name)} onClick={() => replacing.mutate(undefined)}>
          {text.replace}
        </Button>
        <Button
          small
          look="danger"
          aria-label={text.removeOf(saved.name)}
          onClick={() => removing.mutate(undefined)}
        >
          {text.remove}
        </Button>
      </form>
      <p className="soft">{summaryOf(saved.content)}</p>
    </li>
  );
}
