import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { request } from "@/api/client";
import { strings } from "@/strings";
import { Dialog } from "@/ui/Dialog";
import { Failure } from "@/ui/Failure";
import { TextViewer } from "@/ui/TextViewer";
import { imageType, textOf, type PreviewKind } from "./preview";
import { tableOf } from "./previewTable";

const text = strings.trial.files;

interface FilePreviewProps {
  path: string;
  address: string;
  kind: PreviewKind;
  onClose: () => void;
}

/** The content of a file of a trial. */
export default function FilePreview({ path, address, kind, onClose }: FilePreviewProps) {
  const content = useQuery({
    queryKey: ["static", "file", address],
    queryFn: async ({ signal }) => (await request(address, { signal })).arrayBuffer(),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
  return (
    <Dialog title={path} onClose={onClose}>
      {content.data === undefined ? (
        content.isError ? (
          <Failure error={content.error} onRetry={() => void content.refetch()} />
        ) : (
          <p className="soft">{strings.common.loading}</p>
        )
      ) : kind === "image" ? (
        <Image path={path} content={content.data} />
      ) : (
        <Words path={path} content={content.data} table={kind === "table"} />
      )}
    </Dialog>
  );
}

function Image({ path, content }: { path: string; content: ArrayBuffer }) {
  const image = useRef<HTMLImageElement>(null);
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const address = URL.createObjectURL(new Blob([content], { type: imageType(path) }));
    if (image.current !== null) image.current.src = address;
    return () => URL.revokeObjectURL(address);
  }, [path, content]);
  if (broken) return <p className="soft">{text.noImage}</p>;
  return <img ref={image} className="preview-image" alt={path} onError={() => setBroken(true)} />;
}

function Words({ content, path, table }: { content: ArrayBuffer; path: string; table: boolean }) {
  const words = textOf(content);
  if (words === null) return <p className="soft">{text.noText}</p>;
  if (words === "") return <p className="soft">{text.empty}</p>;
  if (table) return <Table text={words} />;
  const file = path.split("/").at(-1) ?? path;
  const form = { id: "text", label: text.asText, text: words, file, type: "text/plain" };
  return <TextViewer label={path} forms={[form]} />;
}

function Table({ text: words }: { text: string }) {
  const { columns, rows, cut } = tableOf(words);
  return (
    <>
      <div className="table-scroll">
        <table className="plain">
          <thead>
            <tr>
              {columns.map((column, number) => (
                <th key={number} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, number) => (
              <tr key={number}>
                {row.map((cell, column) => (
                  <td key={column} className="number">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {cut ? <p className="soft">{text.cut(rows.length)}</p> : null}
    </>
  );
}
