import { useQuery } from "@tanstack/react-query";
import { useCallback } from "react";
import { experimentsQuery, nameOf } from "@/data/experiments";
import { hostsQuery } from "@/data/hosts";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { useTitle } from "@/ui/useTitle";
import { HostCard } from "./HostCard";
import { Waiting } from "./Waiting";
import "./resources.css";

const texts = strings.resources;

/** All machines of the server's experiments. */
export default function Resources() {
  useTitle(texts.title);
  const hosts = useQuery(hostsQuery);
  const names = useNames();
  return (
    <div className="stack">
      <h1>{texts.title}</h1>
      {hosts.isError ? <Failure error={hosts.error} onRetry={() => void hosts.refetch()} /> : null}
      {hosts.data === undefined ? (
        hosts.isError ? null : (
          <p className="soft">{strings.common.loading}</p>
        )
      ) : hosts.data.hosts.length === 0 && hosts.data.waiting.length === 0 ? (
        <section className="card">
          <h2>{texts.none}</h2>
          <p className="soft">{texts.noneHow}</p>
        </section>
      ) : (
        <>
          <Waiting waiting={hosts.data.waiting} nameOf={names} />
          {hosts.data.hosts.map((host) => (
            <HostCard key={host.address} host={host} nameOf={names} />
          ))}
        </>
      )}
    </div>
  );
}

/** From the id of an experiment to what it is called. */
export function useNames(): (experimentId: string) => string {
  const list = useQuery(experimentsQuery).data;
  return useCallback(
    (experimentId) => {
      const found = list?.find(({ id }) => id === experimentId);
      return found === undefined ? experimentId : nameOf(found);
    },
    [list],
  );
}
