import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { answerOf, api, type Schemas } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Copy } from "@/ui/Copy";
import { Failure } from "@/ui/Failure";
import { formatBytes, formatInstant } from "@/ui/format";
import { kindOf } from "./preview";

const FilePreview = lazy(() => import("./FilePreview"));

const text = strings.trial.files;

interface FilesOfAttemptProps {
  id: string;
  trial: Schemas["TrialDetail"];
  job: Schemas["Job"];
}

/** The files that an attempt has written, read where it ran: so only when they are looked at, and when it ends. */
export function FilesOfAttempt({ id, trial, job }: FilesOfAttemptProps) {
  const [previewed, setPreviewed] = useState<string>();
  const files = useQuery({
    queryKey: ["static", id, "files", trial.id, job.attempt, job.endedAt],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/api/v1/experiments/{id}/trials/{trialId}/files", {
          params: { path: { id, trialId: trial.id }, query: { attempt: job.attempt } },
          signal,
        }),
      ),
    staleTime: 0,
    retry: false,
  });
  const address = (path: string) =>
    `/api/v1/experiments/${id}/trials/${trial.id}/files/${path.split("/").map(encodeURIComponent).join("/")}?attempt=${job.attempt}`;
  if (files.data === undefined)
    return files.isError ? (
      <Failure error={files.error} onRetry={() => void files.refetch()} />
    ) : (
      <p className="soft">{strings.common.loading}</p>
    );
  const shown = files.data.files.find(({ path }) => path === previewed);
  const kind = shown === undefined ? null : kindOf(shown.path, shown.size);
  return (
    <>
      <div className="spread">
        <div className="row">
          <span className="soft">{text.folder}</span>
          <code className="folder">{job.logPath}</code>
          <Copy text={job.logPath} />
        </div>
        <Button small disabled={files.isFetching} onClick={() => void files.refetch()}>
          {text.again}
        </Button>
      </div>
      {files.data.files.length === 0 ? (
        <p className="soft">{text.none}</p>
      ) : (
        <table className="plain">
          <caption className="visually-hidden">{text.caption(files.data.attempt)}</caption>
          <thead>
            <tr>
              <th scope="col">{text.path}</th>
              <th scope="col" className="right">
                {text.size}
              </th>
              <th scope="col">{text.modified}</th>
              <th scope="col">
                <span className="visually-hidden">{text.preview}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {files.data.files.map((file) => (
              <tr key={file.path}>
                <th scope="row">
                  <a
                    className="mono"
                    href={address(file.path)}
                    download={file.path.split("/").at(-1)}
                    aria-label={text.download(file.path)}
                  >
                    {file.path}
                  </a>
                </th>
                <td className="number right">{formatBytes(file.size)}</td>
                <td className="number">{formatInstant(file.modifiedAt)}</td>
                <td>
                  {kindOf(file.path, file.size) === null ? (
                    kindOf(file.path, 0) === null ? null : (
                      <span className="soft">{text.tooLarge}</span>
                    )
                  ) : (
                    <Button
                      small
                      look="plain"
                      aria-label={text.previewOf(file.path)}
                      onClick={() => setPreviewed(file.path)}
                    >
                      {text.preview}
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {shown === undefined || kind === null ? null : (
        <Suspense>
          <FilePreview
            path={shown.path}
            address={address(shown.path)}
            kind={kind}
            onClose={() => setPreviewed(undefined)}
          />
        </Suspense>
      )}
      {files.data.complete ? null : <p className="soft">{text.incomplete}</p>}
    </>
  );
}
