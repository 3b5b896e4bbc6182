import "./tags.css";

/** Tags, each as a chip. */
export function TagChips({ tags }: { tags: readonly string[] }) {
  return tags.map((tag) => (
    <span key={tag} className="tag" title={tag}>
      {tag}
    </span>
  ));
}
