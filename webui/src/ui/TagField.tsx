import { useId, useState } from "react";
import { strings } from "@/strings";
import { Button } from "./Button";
import "./tags.css";

const text = strings.annotations;
const LONGEST_TAG = 40;
const MOST_TAGS = 20;

interface TagFieldProps {
  tags: readonly string[];
  /** Tags that are offered. */
  known: readonly string[];
  onChange: (tags: readonly string[]) => void;
}

/** A set of tags: Enter or a comma adds what was typed, a click on a chip removes its tag. */
export function TagField({ tags, known, onChange }: TagFieldProps) {
  const [typed, setTyped] = useState("");
  const [list, problemId] = [useId(), useId()];
  const problem =
    typed.trim().length > LONGEST_TAG
      ? text.tooLong(LONGEST_TAG)
      : tags.length > MOST_TAGS
        ? text.tooMany(MOST_TAGS)
        : null;
  const add = (written: string) => {
    const found = written.split(",").flatMap((tag) => tag.trim() || []);
    if (found.some((tag) => tag.length > LONGEST_TAG)) return;
    setTyped("");
    if (found.length > 0) onChange([...new Set([...tags, ...found])]);
  };
  return (
    <div className="tag-list tag-field">
      {tags.map((tag) => (
        <Button
          key={tag}
          className="tag"
          aria-label={text.removeTag(tag)}
          title={text.removeTag(tag)}
          onClick={() => onChange(tags.filter((other) => other !== tag))}
        >
          {tag} <span aria-hidden>✕</span>
        </Button>
      ))}
      <input
        className="input"
        list={list}
        aria-label={text.addTag}
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : problemId}
        placeholder={text.addTagHint}
        value={typed}
        onChange={({ target }) => (target.value.includes(",") ? add(target.value) : setTyped(target.value))}
        onBlur={() => add(typed)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || typed.trim() === "") return;
          event.preventDefault();
          add(typed);
        }}
      />
      <datalist id={list}>
        {known
          .filter((tag) => !tags.includes(tag))
          .map((tag) => (
            <option key={tag} value={tag} />
          ))}
      </datalist>
      {problem === null ? null : (
        <span id={problemId} role="alert" className="field-error">
          {problem}
        </span>
      )}
    </div>
  );
}
