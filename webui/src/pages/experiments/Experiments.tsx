import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { answerOf, api } from "@/api/client";
import { experimentsQuery, nameOf, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Copy } from "@/ui/Copy";
import { Failure } from "@/ui/Failure";
import { complain, say } from "@/ui/toasts";
import { useTitle } from "@/ui/useTitle";
import { ActionDialog } from "./ActionDialog";
import { ACTIONS, type ActionName } from "./actions";
import { ExperimentTable } from "./ExperimentTable";
import { ClearFilters, FilterBar } from "./FilterBar";
import { choicesOf, filterOf, select } from "./filters";
import { useSelection } from "./selection";
import "./experiments.css";

const texts = strings.experiments;
const NONE: readonly Summary[] = [];

/** All experiments of the server. */
export default function Experiments() {
  useTitle(texts.title);
  const list = useQuery(experimentsQuery);
  if (list.data === undefined)
    return (
      <div className="stack">
        <h1>{texts.title}</h1>
        {list.isError ? (
          <Failure error={list.error} onRetry={() => void list.refetch()} />
        ) : (
          <p className="soft">{strings.common.loading}</p>
        )}
      </div>
    );
  return (
    <div className="stack experiments-page">
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : null}
      {list.data.length === 0 ? <First /> : <List all={list.data} readAt={list.dataUpdatedAt} />}
    </div>
  );
}

/** There is none yet: how the first one comes about. */
function First() {
  return (
    <>
      <h1>{texts.title}</h1>
      <section className="card stack first">
        <h2>{texts.none}</h2>
        <p>{texts.firstHow}</p>
        <div className="row">
          <Link href="/new" className="button primary">
            {strings.navigation.newExperiment}
          </Link>
          <code className="command">{texts.firstCommand}</code>
          <Copy text={texts.firstCommand} />
        </div>
      </section>
    </>
  );
}

function List({ all, readAt }: { all: readonly Summary[]; readAt: number }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [search, setSearch] = useSearchParams();
  const filter = useMemo(() => filterOf(search), [search]);
  const calm = useDeferredValue(filter); // typing comes before filtering
  const items = useMemo(() => select(all, calm), [all, calm]);
  const choices = useMemo(() => choicesOf(all), [all]);
  const selection = useSelection(items);
  const [asked, setAsked] = useState<{ action: ActionName; items: readonly Summary[] } | null>(null);

  const resume = async (item: Summary) => {
    const params = { path: { id: item.id } };
    await answerOf(api.POST("/api/v1/experiments/{id}/resume", { params }));
    void client.invalidateQueries({ queryKey: ["list"] });
    say(texts.resumed(nameOf(item)));
  };
  const view = async (item: Summary) => {
    const params = { path: { id: item.id } };
    await answerOf(api.POST("/api/v1/experiments/{id}/view", { params }));
    navigate(`/experiments/${item.id}`);
  };

  return (
    <>
      <div className="spread">
        <div className="row">
          <h1>{texts.title}</h1>
          <span className="soft" role="status">
            {texts.count(items.length, all.length)}
          </span>
        </div>
        {selection.items.length > 0 ? (
          <div className="row" role="group" aria-label={texts.selection}>
            <span>{texts.selected(selection.items.length)}</span>
            <Button
              small
              disabled={selection.items.length < 2}
              title={selection.items.length < 2 ? strings.experimentCurves.tooFew : undefined}
              onClick={() => navigate(`/compare?ids=${selection.items.map(({ id }) => id).join(",")}`)}
            >
              {strings.experimentCurves.compare}
            </Button>
            {ACTIONS.map((action) => (
              <Button
                key={action}
                small
                look={action === "delete" ? "danger" : undefined}
                onClick={() => setAsked({ action, items: selection.items })}
              >
                {texts.actions[action]}
              </Button>
            ))}
            <Button small look="plain" onClick={() => selection.set(NONE.map(({ id }) => id))}>
              {texts.unselect}
            </Button>
          </div>
        ) : null}
      </div>
      <FilterBar filter={filter} choices={choices} />
      {items.length > 0 ? (
        <ExperimentTable
          items={items}
          selection={selection}
          readAt={readAt}
          onAction={(action, item) => setAsked({ action, items: [item] })}
          onResume={(item) => void resume(item).catch(complain)}
          onView={(item) => void view(item).catch(complain)}
          onClone={(item) => navigate(`/new?clone=${item.id}`)}
        />
      ) : (
        <NoMatch
          archived={all.every((item) => item.archived)}
          onShow={() => setSearch({ archived: "only" })}
        />
      )}
      {asked === null ? null : (
        <ActionDialog
          {...asked}
          onClose={() => setAsked(null)}
          onDone={(done) => {
            const gone = new Set(done.map(({ id }) => id));
            selection.set([...selection.ids].filter((id) => !gone.has(id)));
          }}
        />
      )}
    </>
  );
}

function NoMatch({ archived, onShow }: { archived: boolean; onShow: () => void }) {
  return (
    <div className="card row">
      <span>{archived ? texts.allArchived : texts.noMatch}</span>
      {archived ? <Button onClick={onShow}>{texts.showArchived}</Button> : <ClearFilters />}
    </div>
  );
}
