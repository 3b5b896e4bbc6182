import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useId, useMemo } from "react";
import { answerOf, api } from "@/api/client";
import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { formatBytes } from "@/ui/format";
import { Tabs } from "@/ui/Tabs";
import { TextViewer } from "@/ui/TextViewer";
import { asJson, asYaml } from "@/ui/trial/spelled";
import { useUrlState } from "@/ui/useUrlState";

const LogView = lazy(() => import("@/ui/log/LogView").then(({ LogView }) => ({ default: LogView })));

const text = strings.overview.files;
const TABS = ["config", "space", "logs"] as const;

/** The configuration, the search space and the logs, to read and to take away. */
export function Files({ id, profile }: { id: string; profile: Profile }) {
  const [wanted, setWanted] = useUrlState("show", "config", { replace: true });
  const panel = useId();
  const shown = TABS.find((tab) => tab === wanted) ?? "config";
  return (
    <section className="card stack-small" aria-label={text.label}>
      <Tabs
        label={text.label}
        tabs={TABS.map((tab) => ({ id: tab, label: text[tab] }))}
        value={shown}
        onChange={setWanted}
        panel={panel}
      />
      <div id={panel} role="tabpanel" aria-label={text[shown]}>
        {shown === "logs" ? (
          <Suspense fallback={<p className="soft">{strings.common.loading}</p>}>
            <Logs id={id} />
          </Suspense>
        ) : (
          <Definition key={shown} what={shown} id={id} profile={profile} />
        )}
      </div>
    </section>
  );
}

function Definition({ what, id, profile }: { what: "config" | "space"; id: string; profile: Profile }) {
  const { config, configText, searchSpace } = profile;
  const forms = useMemo(() => {
    const [yaml, json, file] =
      what === "config"
        ? [configText, asJson(config), `${id}-config`]
        : [asYaml(searchSpace), asJson(searchSpace), `${id}-search-space`];
    return [
      { id: "yaml", label: "YAML", text: yaml, file: `${file}.yml`, type: "application/yaml" },
      { id: "json", label: "JSON", text: json, file: `${file}.json`, type: "application/json" },
    ];
  }, [what, id, config, configText, searchSpace]);
  return <TextViewer label={text[what]} forms={forms} />;
}

function Logs({ id }: { id: string }) {
  const [name, setName] = useUrlState("log", "server", { replace: true });
  const logs = useQuery({
    queryKey: ["static", id, "logs"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/api/v1/experiments/{id}/logs", { params: { path: { id } }, signal })),
    staleTime: 0, // sizes grow, and keepers come
  });
  if (logs.data === undefined)
    return logs.isError ? (
      <Failure error={logs.error} onRetry={() => void logs.refetch()} />
    ) : (
      <p className="soft">{strings.common.loading}</p>
    );
  const log = logs.data.logs.find((each) => each.name === name) ?? logs.data.logs[0];
  if (log === undefined) return <p className="soft">{text.noLogs}</p>;
  return (
    <div className="stack-small">
      <div className="row">
        <label className="row">
          <span>{text.choose}</span>
          <select className="input" value={log.name} onChange={(event) => setName(event.target.value)}>
            {logs.data.logs.map((each) => (
              <option key={each.name} value={each.name}>
                {each.name} {each.size === null ? "" : text.size(formatBytes(each.size))}
              </option>
            ))}
          </select>
        </label>
        <span className="soft">{log.about}</span>
      </div>
      <LogView
        address={`/api/v1/experiments/${id}/logs/${encodeURIComponent(log.name)}`}
        name={`${id}-${log.name}.log`}
        writing={log.follows}
      />
    </div>
  );
}
