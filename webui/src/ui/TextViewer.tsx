import { useId, useState } from "react";
import { Copy } from "./Copy";
import { Button } from "./Button";
import { download } from "./download";
import { Tabs } from "./Tabs";
import { strings } from "@/strings";

interface Form {
  id: string;
  label: string;
  text: string;
  /** Of the download. */
  file: string;
  type: string;
}

/** A text in one or several forms, to read, copy and download. */
export function TextViewer({ label, forms }: { label: string; forms: readonly Form[] }) {
  const panel = useId();
  const [chosen, setChosen] = useState(forms[0]?.id ?? "");
  const form = forms.find((each) => each.id === chosen) ?? forms[0];
  if (form === undefined) return null;
  return (
    <div className="viewer">
      <div className="spread">
        <Tabs label={label} tabs={forms} value={form.id} onChange={setChosen} panel={panel} />
        <div className="row">
          <Copy text={form.text} />
          <Button small look="plain" onClick={() => download(form.file, form.text, form.type)}>
            {strings.common.download}
          </Button>
        </div>
      </div>
      <pre
        id={panel}
        role="tabpanel"
        aria-label={`${label}: ${form.label}`}
        tabIndex={0}
        className="viewer-text"
      >
        {form.text}
      </pre>
    </div>
  );
}
