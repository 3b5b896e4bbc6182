import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { ApiError } from "@/api/client";
import { profileQuery } from "@/data/experiment";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { Failure } from "@/ui/Failure";
import { StatusBadge } from "@/ui/StatusBadge";
import { useTitle } from "@/ui/useTitle";

const SECTIONS = [
  ["/", strings.navigation.overview],
  ["/trials", strings.navigation.trials],
  ["/analysis", strings.navigation.analysis],
  ["/resources", strings.navigation.experimentResources],
] as const;

/** What all pages of an experiment stand below: its name, its status, its sections. */
export function ExperimentFrame({ id, children }: { id: string; children: ReactNode }) {
  const profile = useQuery(profileQuery(id));
  const [location] = useLocation();
  useTitle(profile.data?.name || id);
  const gone = profile.error instanceof ApiError && profile.error.status === 404; // it may have been deleted
  if (profile.isError && (gone || profile.data === undefined))
    return (
      <div className="stack">
        <h1>{id}</h1>
        <Failure error={profile.error} onRetry={() => void profile.refetch()} />
        <p>
          <Link href="~/">{strings.navigation.allExperiments}</Link>
        </p>
      </div>
    );
  return (
    <div className="stack">
      <div className="experiment-title">
        <div className="row">
          <h1 title={profile.data?.name}>{profile.data?.name || id}</h1>
          <code>{id}</code>
          <Copy text={id} />
          {profile.data === undefined ? null : <StatusBadge status={profile.data.status} />}
        </div>
        <Link href={`~/new?clone=${id}`} className="button">
          {strings.navigation.clone}
        </Link>
      </div>
      <nav className="tabs" aria-label={strings.navigation.experimentSections}>
        {SECTIONS.map(([path, label]) => {
          const here = path === "/" ? location === "/" : location.startsWith(path);
          return (
            <Link key={path} href={path} className="tab" aria-current={here ? "page" : undefined}>
              {label}
            </Link>
          );
        })}
      </nav>
      {children}
    </div>
  );
}
