import type { Schemas } from "@/api/client";
import { strings } from "@/strings";

/** How a machine is, in words. */
export function MachineBadge({ status }: { status: Schemas["MachineStatus"] }) {
  const [look, mark, word] = strings.resources.statuses[status];
  return (
    <span className={`badge ${look}`}>
      <span aria-hidden>{mark}</span>
      {word}
    </span>
  );
}
