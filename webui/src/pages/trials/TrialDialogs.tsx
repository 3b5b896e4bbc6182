import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { readIds } from "@/data/annotations";
import { trialQuery, type TrialsQuestion, type Column } from "@/data/trials";
import { strings } from "@/strings";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { CustomTrial } from "@/ui/trial/CustomTrial";
import { LostDialog } from "@/ui/trial/LostDialog";
import { TensorBoardDialog } from "@/ui/trial/TensorBoardDialog";
import { ColumnChooser } from "./ColumnChooser";
import type { TableColumn } from "./columns";
import { KillDialog, RetryDialog } from "./EndDialogs";
import { FilterBuilder } from "./FilterBuilder";
import { withTerm } from "./filterText";
import { TagDialog } from "./TagDialog";
import { SaveViewDialog, ViewsDialog } from "./ViewDialogs";
import { writtenColumns, type Selection, type View } from "./view";

const CurveDialog = lazy(() => import("./CurveDialog"));

interface TrialDialogsProps {
  id: string;
  view: View;
  total: number;
  all: ReadonlyMap<string, TableColumn>;
  named: readonly Column[];
  schema: UseQueryResult<{ leftOut: number }>;
  onResetWidths: () => void;
}

/** The dialog that the address names, if any. */
export function TrialDialogs({ id, view, total, all, named, schema, onResetWidths }: TrialDialogsProps) {
  const { dialog, question, selection, write } = view;
  if (dialog === null) return null;
  const close = () => write({ dialog: null });
  const { name, trialId } = dialog;
  const one: Selection | null = trialId === "" ? null : { all: false, ids: new Set([trialId]) };
  const about = {
    id,
    question,
    selection: one ?? selection,
    count: one !== null ? 1 : selection.all ? total - selection.ids.size : selection.ids.size,
    onDone: () => write(one === null ? { dialog: null, selected: null } : { dialog: null }),
    onClose: close,
  };
  switch (name) {
    case "columns":
      if (schema.data === undefined)
        return <Waiting title={strings.trials.chooser.title} query={schema} onClose={close} />;
      return (
        <ColumnChooser
          all={all}
          chosen={view.columns}
          leftOut={schema.data.leftOut}
          onChange={(columns) => write(writtenColumns(id, columns))}
          onResetWidths={onResetWidths}
          onClose={close}
        />
      );
    case "builder":
      if (schema.data === undefined)
        return <Waiting title={strings.trials.builder.title} query={schema} onClose={close} />;
      return (
        <FilterBuilder
          columns={named}
          onAdd={(term) => {
            close(); // so that "back" does not lead into the dialog
            write({ filter: withTerm(question.filter, term) }, true);
          }}
          onClose={close}
        />
      );
    case "kill":
      return <KillDialog {...about} />;
    case "retry":
      return <RetryDialog {...about} />;
    case "tag":
      return <TagDialog {...about} />;
    case "tensorboard":
      return (
        <TensorBoardDialog
          id={id}
          count={about.count}
          chosen={() => chosenIds(id, about.question, about.selection)}
          onClose={close}
        />
      );
    case "save-view":
      return <SaveViewDialog id={id} view={view} onClose={close} />;
    case "views":
      return <ViewsDialog id={id} view={view} onClose={close} />;
    case "lost":
      return <Lost id={id} trialId={trialId} onClose={close} />;
    case "clone":
      return <Clone id={id} trialId={trialId} onClose={close} />;
    case "curve":
      return (
        <Suspense fallback={null}>
          <CurveDialog id={id} trialId={trialId} onClose={close} />
        </Suspense>
      );
    default:
      return null;
  }
}

/** The ids of the selected trials; null if none is selected. */
async function chosenIds(id: string, question: TrialsQuestion, { all, ids }: Selection) {
  if (all) return (await readIds(id, question)).filter((one) => !ids.has(one));
  return ids.size === 0 ? null : [...ids];
}

interface OfTrialProps {
  id: string;
  trialId: string;
  onClose: () => void;
}

function Clone({ id, trialId, onClose }: OfTrialProps) {
  const trial = useQuery(trialQuery(id, trialId));
  if (trial.data !== undefined) return <CustomTrial id={id} base={trial.data} onClose={onClose} />;
  return <Waiting title={strings.customTrial.title} query={trial} onClose={onClose} />;
}

function Lost({ id, trialId, onClose }: OfTrialProps) {
  const trial = useQuery(trialQuery(id, trialId));
  if (trial.data !== undefined) return <LostDialog id={id} trial={trial.data} onClose={onClose} />;
  return <Waiting title={strings.trials.row.lost} query={trial} onClose={onClose} />;
}

interface WaitingProps {
  title: string;
  query: Pick<UseQueryResult, "isError" | "error" | "refetch">;
  onClose: () => void;
}

/** The dialog until what it shows has been read: a choice made earlier would be one among too few. */
function Waiting({ title, query, onClose }: WaitingProps) {
  return (
    <Dialog title={title} onClose={onClose} narrow>
      {query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <p className="soft">{strings.common.loading}</p>
      )}
    </Dialog>
  );
}
