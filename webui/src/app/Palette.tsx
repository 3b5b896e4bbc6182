import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useId, useMemo, useRef, useState, useSyncExternalStore, type KeyboardEvent } from "react";
import { useLocation } from "wouter";
import { answerOf, api } from "@/api/client";
import { experimentsQuery, nameOf, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { Dialog } from "@/ui/Dialog";
import { chooseTheme, type Theme } from "@/ui/theme";
import { complain, say, undoLast } from "@/ui/toasts";
import { DESTINATIONS } from "./keys";
import { matching, trialNumberIn, type Offer } from "./offers";
import { showShortcuts } from "./Shortcuts";
import "./palette.css";

const texts = strings.palette;
const THEMES: readonly Theme[] = ["system", "light", "dark"];

let shown = false;
const watchers = new Set<() => void>();

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function showPalette(show: boolean): void {
  shown = show;
  for (const watcher of watchers) watcher();
}

/** Opens with Ctrl+K or Cmd+K: finds pages, experiments, trials and commands by what is typed. */
export function Palette() {
  const open = useSyncExternalStore(watch, () => shown);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      if (document.querySelector("dialog[open]") !== null && !shown) return;
      event.preventDefault();
      showPalette(!shown);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return open ? <PaletteDialog /> : null;
}

function PaletteDialog() {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const listId = useId();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const offers = useOffers(typed);
  const found = useMemo(() => matching(offers, trialNumberIn(typed) === null ? typed : ""), [offers, typed]);
  const at = Math.min(chosen, found.length - 1);
  const close = () => showPalette(false);
  const run = (offer: Offer | undefined) => {
    if (offer === undefined) return;
    close();
    offer.run();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) setChosen((at + step + found.length) % found.length);
    else if (event.key === "Enter") run(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={texts.title} onClose={close} narrow>
      <input
        className="input palette-field"
        role="combobox"
        ref={field}
        aria-label={texts.field}
        aria-expanded
        aria-controls={listId}
        aria-activedescendant={found[at] === undefined ? undefined : `${listId}-${at}`}
        placeholder={texts.hint}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setChosen(0);
        }}
        onKeyDown={onKey}
      />
      <ul id={listId} role="listbox" aria-label={texts.found} className="palette-list">
        {found.map((offer, index) => (
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- the field above has the keys
          <li
            key={offer.id}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseMove={() => setChosen(index)}
            onClick={() => run(offer)}
          >
            <span className="palette-label">{offer.label}</span>
            <span className="soft">{offer.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p className="soft">{texts.none}</p> : null}
    </Dialog>
  );
}

/** All offers on this page: a trial by its number first, then commands, pages and experiments. */
function useOffers(typed: string): readonly Offer[] {
  const [path, navigate] = useLocation();
  const experiments = useQuery(experimentsQuery).data;
  const client = useQueryClient();
  const within = /^\/experiments\/([^/]+)/.exec(path)?.[1];
  const number = trialNumberIn(typed);
  return useMemo(() => {
    const here = (experiments ?? []).find(({ id }) => id === within);
    const go = (to: string) => () => navigate(to);
    const pages = DESTINATIONS.filter((each) => each.within !== true || within !== undefined).map(
      ({ key, path: to, within: inside, label }): Offer => ({
        id: `page ${key}`,
        label,
        kind: texts.page,
        run: go(inside === true ? `/experiments/${within ?? ""}${to === "/" ? "" : to}` : to),
      }),
    );
    const others = (experiments ?? []).map((item): Offer => ({
      id: `experiment ${item.id}`,
      label: nameOf(item),
      words: `${item.id} ${item.status}`,
      kind: `${texts.experiment}, ${item.status}`,
      run: go(`/experiments/${item.id}`),
    }));
    const again = () => void client.invalidateQueries();
    const commands = [...(here === undefined ? [] : commandsOf(here, again)), ...GENERAL];
    if (number !== null && within !== undefined)
      return [
        {
          id: "trial",
          label: texts.trial(number),
          kind: texts.trialKind,
          run: () => void openTrial(within, number, navigate),
        },
      ];
    return [...pages, ...commands, ...others];
  }, [experiments, within, number, navigate, client]);
}

async function openTrial(id: string, sequence: number, navigate: (to: string) => void): Promise<void> {
  try {
    const query = { filter: `sequence:${sequence}`, limit: 1 };
    const { trials } = await answerOf(
      api.GET("/api/v1/experiments/{id}/trials", { params: { path: { id }, query } }),
    );
    if (trials[0] === undefined) throw new Error(texts.noTrial(sequence));
    navigate(`/experiments/${id}/trials/${trials[0].id}`);
  } catch (error) {
    complain(error);
  }
}

/** Commands on the experiment of the page. Each says what it did, with a way back where there is one. */
function commandsOf(item: Summary, again: () => void): Offer[] {
  const params = { path: { id: item.id } };
  const archive = (archived: boolean) =>
    answerOf(api.PATCH("/api/v1/experiments/{id}/labels", { params, body: { archived } })).finally(again);
  const { archived } = item;
  return [
    {
      id: "archive",
      label: archived ? strings.overview.actions.unarchive : strings.overview.actions.archive,
      kind: texts.command,
      run: () =>
        void archive(!archived).then(() => {
          const { archived: done, unarchived: undone } = strings.overview.actions;
          say(archived ? undone : done, () => archive(archived));
        }, complain),
    },
    {
      id: "copy id",
      label: texts.copyId(item.id),
      kind: texts.command,
      run: () => void navigator.clipboard.writeText(item.id).then(() => say(strings.common.copied), complain),
    },
  ];
}

const GENERAL: readonly Offer[] = [
  ...THEMES.map((theme): Offer => ({
    id: `theme ${theme}`,
    label: `${strings.common.theme}: ${strings.common.themes[theme]}`,
    kind: texts.command,
    run: () => chooseTheme(theme),
  })),
  {
    id: "undo",
    label: texts.undo,
    kind: texts.command,
    run: () => {
      if (!undoLast()) say(strings.common.nothingToUndo);
    },
  },
  {
    id: "shortcuts",
    label: strings.common.shortcuts,
    kind: texts.command,
    run: () => showShortcuts(true),
  },
];
