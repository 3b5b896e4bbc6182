import { memo } from "react";
import { spansOf, type Span, type Style } from "./ansi";

interface LogLineProps {
  text: string;
  begun: Style;
  query: string;
}

/** A line in its colours, with what is searched for marked. */
export const LogLine = memo(function LogLine({ text, begun, query }: LogLineProps) {
  const { spans } = spansOf(text.endsWith("\r") ? text.slice(0, -1) : text, begun);
  return marked(spans, query.toLowerCase()).map((span, index) =>
    span.hit ? (
      <mark key={index} className={span.look}>
        {span.text}
      </mark>
    ) : span.look === "" ? (
      span.text
    ) : (
      <span key={index} className={span.look}>
        {span.text}
      </span>
    ),
  );
});

export interface MarkedSpan extends Span {
  readonly hit: boolean;
}

/** The spans, cut where a hit begins or ends; a hit may reach over several. `query` is in lower case. */
export function marked(spans: readonly Span[], query: string): MarkedSpan[] {
  const whole = spans.map((span) => span.text).join("");
  const cuts = query === "" ? [] : hitsIn(whole.toLowerCase(), query);
  if (cuts.length === 0) return spans.map((span) => ({ ...span, hit: false }));
  const cut: MarkedSpan[] = [];
  let begin = 0;
  for (const span of spans) {
    const end = begin + span.text.length;
    let from = begin;
    for (const [hitBegin, hitEnd] of cuts) {
      if (hitEnd <= from || hitBegin >= end) continue;
      const [left, right] = [Math.max(hitBegin, from), Math.min(hitEnd, end)];
      if (left > from) cut.push({ ...span, text: whole.slice(from, left), hit: false });
      cut.push({ ...span, text: whole.slice(left, right), hit: true });
      from = right;
    }
    if (from < end) cut.push({ ...span, text: whole.slice(from, end), hit: false });
    begin = end;
  }
  return cut;
}

function hitsIn(text: string, query: string): [number, number][] {
  const found: [number, number][] = [];
  for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length))
    found.push([at, at + query.length]);
  return found;
}
