import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useMemo, useState, type ChangeEvent } from "react";
import { answerOf, api } from "@/api/client";
import { profileQuery, type Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { complain, say } from "@/ui/toasts";
import { deafTuner, readRecords, type ImportedRecord } from "./texts";

const text = strings.change.results;

/** Results of other experiments for the tuner, from a file or pasted. */
export function ImportDialog({
  id,
  profile,
  onClose,
}: {
  id: string;
  profile: Profile;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [written, setWritten] = useState("");
  const read = useMemo(() => readRecords(written), [written]);
  const [file, area, hint, fault] = [useId(), useId(), useId(), useId()];
  const deaf = deafTuner(profile.config.tuner);
  const importing = useMutation({
    mutationFn: (records: ImportedRecord[]) =>
      answerOf(api.POST("/api/v1/experiments/{id}/import", { params: { path: { id } }, body: { records } })),
    onSuccess: ({ given, warnings }, records) => {
      void client.invalidateQueries({ queryKey: profileQuery(id).queryKey });
      say(text.done(given, records.length));
      for (const sentence of warnings) complain(new Error(text.warning(sentence)));
      onClose();
    },
  });
  const write = (next: string) => {
    setWritten(next);
    importing.reset();
  };
  const choose = (event: ChangeEvent<HTMLInputElement>) => {
    const chosen = event.target.files?.[0];
    chosen?.text().then(write, () => complain(new Error(text.unreadable(chosen.name))));
  };
  const wrong = "fault" in read ? read.fault : null;
  return (
    <Dialog
      title={text.title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{strings.common.cancel}</Button>
          <Button
            look="primary"
            disabled={wrong !== null || importing.isPending}
            title={wrong ?? undefined}
            onClick={() => {
              if ("records" in read) importing.mutate(read.records);
            }}
          >
            {text.action}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p className="soft">{text.explanation}</p>
        {deaf === null ? null : <p className="note warn">{text.deaf(deaf)}</p>}
        <div className="field">
          <label htmlFor={file}>{text.file}</label>
          <input id={file} type="file" accept=".json,application/json" onChange={choose} />
        </div>
        <div className="field">
          <label htmlFor={area}>{text.text}</label>
          <textarea
            id={area}
            className="input mono"
            rows={10}
            value={written}
            spellCheck={false}
            aria-describedby={`${hint} ${fault}`}
            aria-invalid={wrong !== null && written.trim() !== ""}
            onChange={(event) => write(event.target.value)}
          />
          <span id={hint} className="soft">
            {text.hint}
          </span>
        </div>
        <p id={fault} role="status" className={wrong !== null && written.trim() !== "" ? "note bad" : "soft"}>
          {"records" in read ? text.ready(read.records.length) : read.fault}
        </p>
        {importing.isError ? <Failure error={importing.error} /> : null}
      </div>
    </Dialog>
  );
}
