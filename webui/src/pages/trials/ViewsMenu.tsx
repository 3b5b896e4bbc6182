import { useQuery } from "@tanstack/react-query";
import { viewsQuery } from "@/data/annotations";
import { strings } from "@/strings";
import { Menu } from "@/ui/Menu";
import { writtenView } from "./savedViews";
import type { View } from "./view";

const text = strings.views;

interface ViewsMenuProps {
  id: string;
  onWrite: View["write"];
  onDialog: (name: string) => void;
}

/** The saved views of the experiment: picks one, saves the present one, or manages them. */
export function ViewsMenu({ id, onWrite, onDialog }: ViewsMenuProps) {
  const views = useQuery(viewsQuery(id)).data ?? [];
  return (
    <Menu
      label={text.open}
      items={() => [
        ...views.map(({ name, content }) => ({
          label: name,
          onSelect: () => onWrite(writtenView(id, content), true),
        })),
        { label: text.saveAs, onSelect: () => onDialog("save-view") },
        { label: text.manage, onSelect: () => onDialog("views"), disabled: views.length === 0 },
      ]}
    />
  );
}
