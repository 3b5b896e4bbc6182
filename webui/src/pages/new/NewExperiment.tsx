import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import { profileQuery } from "@/data/experiment";
import { nameOf } from "@/data/experiments";
import { strings } from "@/strings";
import { Failure } from "@/ui/Failure";
import { useTitle } from "@/ui/useTitle";
import { useDraft } from "./draft";
import { Writing } from "./Writing";

const texts = strings.newExperiment;
const EMPTY = { text: "", cwd: "" };

/** A new experiment from YAML; with ?clone=ID from that of another. */
export default function NewExperiment() {
  useTitle(texts.title);
  const [search] = useSearchParams();
  const clone = search.get("clone");
  return clone === null ? <Fresh /> : <Clone key={clone} id={clone} />;
}

function Fresh() {
  const [draft, setDraft] = useDraft(null);
  return <Writing draft={draft ?? EMPTY} onDraft={setDraft} />;
}

function Clone({ id }: { id: string }) {
  const [draft, setDraft] = useDraft(id);
  const profile = useQuery(profileQuery(id));
  if (profile.data === undefined)
    return (
      <div className="stack">
        <h1>{texts.title}</h1>
        {profile.isError ? (
          <Failure error={profile.error} onRetry={() => void profile.refetch()} />
        ) : (
          <p className="soft">{texts.cloneLoading}</p>
        )}
      </div>
    );
  const original = { text: profile.data.configText, cwd: "" };
  return (
    <Writing
      draft={draft ?? original}
      onDraft={setDraft}
      original={{ name: nameOf(profile.data), draft: original }}
    />
  );
}
