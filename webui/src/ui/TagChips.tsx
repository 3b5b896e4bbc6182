import "./tags.css";

/** Tags, each as a chip whose hover text has all of them, since a narrow place does not show all. */
export function TagChips({ tags }: { tags: readonly string[] }) {
  return tags.map((tag) => (
    <span key={tag} className="tag" title={tags.join(", ")}>
      {tag}
    </span>
  ));
}
