import { useLocation } from "wouter";
import { useConnection } from "@/live/useConnection";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatInstant } from "@/ui/format";

/** The command that starts the server: with the experiment of the page, if the page is about one. */
export function startCommand(path: string, port: string): string {
  const experiment = /^\/experiments\/([^/]+)/.exec(path)?.[1];
  const options = port === "" ? "" : ` --port ${port}`;
  return experiment === undefined ? `nnimgr serve${options}` : `nnictl resume ${experiment}${options}`;
}

/** Says when what is on the page may be old. */
export function Banner() {
  const connection = useConnection();
  const [path] = useLocation();
  const command = startCommand(path, location.port);
  return (
    <div role="status" aria-live="polite">
      {connection.state === "lost" ? (
        <p className="banner warn">
          {strings.common.lost(formatInstant(connection.since))} <code>{command}</code>{" "}
          <Copy text={command} />
        </p>
      ) : null}
      {connection.state === "signed-out" ? (
        <p className="banner bad">
          {strings.common.signedOut} <a href={location.pathname + location.search}>{strings.common.signIn}</a>
        </p>
      ) : null}
    </div>
  );
}
