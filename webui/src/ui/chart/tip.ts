/** The content of a chart's tooltip as DOM, since the content security policy allows no styles in markup. */
export function tip(title: string, rows: readonly (readonly [string, string])[] = []): HTMLElement {
  const box = document.createElement("div");
  box.className = "tip";
  const heading = document.createElement("strong");
  heading.textContent = title;
  box.append(heading, document.createElement("dl"));
  addRows(box, rows);
  return box;
}

/** Add rows to a tooltip. */
export function addRows(box: HTMLElement, rows: readonly (readonly [string, string])[]): void {
  const list = box.querySelector("dl");
  for (const [label, value] of rows) {
    const term = document.createElement("dt");
    term.textContent = label;
    const description = document.createElement("dd");
    description.textContent = value;
    list?.append(term, description);
  }
}
