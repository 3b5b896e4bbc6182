import { useState } from "react";
import { strings } from "@/strings";
import { Button } from "./Button";
import { complain } from "./toasts";

/** Copies a text; says so for a moment. `text` may be made when it is wanted. */
export function Copy({
  text,
  label = strings.common.copy,
}: {
  text: string | (() => string);
  label?: string;
}) {
  const [done, setDone] = useState(false);
  const copy = () => {
    navigator.clipboard.writeText(typeof text === "string" ? text : text()).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    }, complain);
  };
  return (
    <Button small look="plain" onClick={copy} aria-live="polite">
      {done ? strings.common.copied : label}
    </Button>
  );
}
