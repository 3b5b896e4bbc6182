/** The content of a chart's tooltip as DOM, since the content security policy allows no styles in markup. */
export function tip(title: string, rows: readonly (readonly [string, string])[] = []): HTMLElement {
  const box = document.createElement("div");
  box.className = "tip";
  const heading = document.createElement("strong");
  heading.textContent = title;
  const list = document.createElement("dl");
  for (const [label, value] of rows) {
    const term = document.createElement("dt");
    term.textContent = label;
    const description = document.createElement("dd");
    description.textContent = value;
    list.append(term, description);
  }
  box.append(heading, list);
  return box;
}
