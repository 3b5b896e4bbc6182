import { Component, type ErrorInfo, type ReactNode } from "react";
import { sentenceOf } from "@/api/client";
import { strings } from "@/strings";
import { Button } from "./Button";

/** A failed query, with a way to try again. */
export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  return (
    <div className="note bad spread" role="alert">
      <span>{sentenceOf(error)}</span>
      {onRetry === undefined ? null : (
        <Button small onClick={onRetry}>
          {strings.common.retry}
        </Button>
      )}
    </div>
  );
}

/**
 * Keeps an error in one page from taking the others down.
 * "Try again" reloads the page, since a script that could not be fetched is not fetched again otherwise.
 */
export class FailureBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override componentDidCatch(error: Error, at: ErrorInfo): void {
    console.error(error, at.componentStack);
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return (
      <div className="stack">
        <h1>{strings.common.pageFailed}</h1>
        <Failure error={this.state.error} onRetry={() => window.location.reload()} />
      </div>
    );
  }
}
