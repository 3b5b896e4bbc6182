import { memo } from "react";
import { Link } from "wouter";
import { hasEnded, nameOf, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { Copy } from "@/ui/Copy";
import { formatInstant } from "@/ui/format";
import { Menu, type MenuItem } from "@/ui/Menu";
import { StatusBadge } from "@/ui/StatusBadge";
import { applies, type ActionName } from "./actions";
import { Best, Duration, Progress } from "./cells";
import { Tags } from "./Tags";

const texts = strings.experiments;

export interface RowActions {
  onSelect: (item: Summary, range: boolean) => void;
  onAction: (action: ActionName, item: Summary) => void;
  onResume: (item: Summary) => void;
  onView: (item: Summary) => void;
  onClone: (item: Summary) => void;
}

interface RowProps {
  actions: RowActions;
  item: Summary;
  at: number; // its place in the whole list
  selected: boolean;
  hurried: boolean; // it is scrolled over
  readAt: number;
}

export const ExperimentRow = memo(function ExperimentRow({
  item,
  at,
  selected,
  hurried,
  readAt,
  actions,
}: RowProps) {
  const name = nameOf(item);
  return (
    <tr aria-rowindex={at + 2} aria-selected={selected}>
      <td>
        <input
          type="checkbox"
          aria-label={texts.select(name)}
          checked={selected}
          onChange={(event) =>
            actions.onSelect(item, event.nativeEvent instanceof MouseEvent && event.nativeEvent.shiftKey)
          }
        />
      </td>
      <td title={item.reason}>
        <StatusBadge status={item.status} />
      </td>
      <td className="name">
        <Link href={`/experiments/${item.id}`} title={name}>
          {name}
        </Link>
        <div className="id">
          <code title={item.id}>{item.id}</code>
          <Copy text={item.id} />
        </div>
      </td>
      <td>
        <Best item={item} lazy={hurried} />
      </td>
      <td>
        <Progress item={item} />
      </td>
      <td title={item.platform}>{item.platform}</td>
      <td title={item.owner ?? undefined}>{item.owner ?? strings.common.notAvailable}</td>
      <td>
        <Tags item={item} />
      </td>
      <td className="number">{formatInstant(item.createdAt)}</td>
      <td className="number">{formatInstant(item.endedAt)}</td>
      <td className="number">
        <Duration item={item} readAt={readAt} />
      </td>
      <td className="number">
        <Port item={item} />
      </td>
      <td className="last">
        <Menu small label="⋯" name={texts.rowMenu(name)} items={menuOf(item, actions)} />
      </td>
    </tr>
  );
});

/** The server that has it open may be another one: its pages are there. */
function Port({ item }: { item: Summary }) {
  if (item.port === null) return strings.common.notAvailable;
  if (item.served || hasEnded(item)) return String(item.port);
  const there = `${location.protocol}//${location.hostname}:${item.port}/experiments/${item.id}`;
  return (
    <a href={there} title={texts.otherServer(item.port)}>
      {item.port}
    </a>
  );
}

function menuOf(item: Summary, { onAction, onResume, onView, onClone }: RowActions): MenuItem[] {
  const ended = hasEnded(item);
  const archive = item.archived ? "unarchive" : "archive";
  const entry = (action: ActionName) => ({
    label: texts.actions[action],
    disabled: !applies(action, item) && texts.why[action === "delete" ? "stopFirst" : "ended"],
    onSelect: () => onAction(action, item),
  });
  return [
    { label: texts.resume, disabled: !ended && texts.why.running, onSelect: () => onResume(item) },
    { label: texts.view, disabled: !ended && texts.why.running, onSelect: () => onView(item) },
    { label: texts.clone, onSelect: () => onClone(item) },
    entry("stop"),
    entry(archive),
    entry("export"),
    { ...entry("delete"), danger: true },
  ];
}
