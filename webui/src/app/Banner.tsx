import { useConnection } from "@/live/useConnection";
import { strings } from "@/strings";
import { formatInstant } from "@/ui/format";

/** Says when what is on the page may be old. */
export function Banner() {
  const connection = useConnection();
  return (
    <div role="status" aria-live="polite">
      {connection.state === "lost" ? (
        <p className="banner warn">{strings.common.lost(formatInstant(connection.since))}</p>
      ) : null}
      {connection.state === "signed-out" ? (
        <p className="banner bad">
          {strings.common.signedOut} <a href={location.pathname + location.search}>{strings.common.signIn}</a>
        </p>
      ) : null}
    </div>
  );
}
