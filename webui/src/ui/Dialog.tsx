import { useEffect, useId, useRef, type ReactNode } from "react";
import { strings } from "@/strings";
import { Button } from "./Button";
import { Toasts } from "./toasts";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  narrow?: boolean;
}

/** A modal dialog: the focus stays inside, Escape closes it, and the focus goes back to where it was. */
export function Dialog({ title, onClose, children, footer, narrow = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={narrow ? "dialog narrow" : "dialog"}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={titleId}>{title}</h2>
        <Button look="plain" small onClick={onClose} aria-label={strings.common.close}>
          ✕
        </Button>
      </header>
      <div className="dialog-body">{children}</div>
      {footer === undefined ? null : <footer>{footer}</footer>}
      {/* Those of the page lie behind the dialog, where they are neither seen well nor read out. */}
      <Toasts />
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** What will happen, naming what it happens to. */
  text: ReactNode;
  action: string;
  danger?: boolean;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

export function Confirm({
  title,
  text,
  action,
  danger = false,
  busy = false,
  onConfirm,
  onClose,
}: ConfirmProps) {
  const footer = (
    <>
      <Button onClick={onClose}>{strings.common.cancel}</Button>
      <Button look={danger ? "danger" : "primary"} disabled={busy} onClick={onConfirm}>
        {action}
      </Button>
    </>
  );
  return (
    <Dialog title={title} onClose={onClose} footer={footer} narrow>
      {text}
    </Dialog>
  );
}
