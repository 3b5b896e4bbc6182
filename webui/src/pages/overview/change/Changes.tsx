import type { Profile } from "@/data/experiment";
import { strings } from "@/strings";
import type { MenuItem } from "@/ui/Menu";
import { whyFixed } from "../whyFixed";
import { ChangeDialog } from "./ChangeDialog";
import { ImportDialog } from "./ImportDialog";
import { constraintsText, spaceText, tunerText } from "./texts";

const text = strings.change;

export type Change = "space" | "tuner" | "import";

/** Items of a menu for changes of a running experiment; where none is possible, they say why. */
export function changeItems(profile: Profile, onSelect: (change: Change) => void): MenuItem[] {
  const disabled = whyFixed(profile) ?? false;
  return [
    { label: text.space.item, disabled, onSelect: () => onSelect("space") },
    { label: text.tuner.item, disabled, onSelect: () => onSelect("tuner") },
    { label: text.results.item, disabled, onSelect: () => onSelect("import") },
  ];
}

interface ChangesProps {
  id: string;
  profile: Profile;
  change: Change;
  onClose: () => void;
}

/** The dialog of a change. */
export function Changes({ id, profile, change, onClose }: ChangesProps) {
  const { config, searchSpace } = profile;
  switch (change) {
    case "space":
      return (
        <ChangeDialog
          id={id}
          {...text.space}
          fields={[
            { name: "searchSpace", label: text.space.space, present: spaceText(searchSpace) },
            {
              name: "searchSpaceConstraints",
              label: text.space.constraints,
              hint: text.space.constraintsHint,
              present: constraintsText(config.searchSpaceConstraints),
            },
          ]}
          onClose={onClose}
        />
      );
    case "tuner":
      return (
        <ChangeDialog
          id={id}
          {...text.tuner}
          fields={[{ name: "tuner", label: text.tuner.tuner, present: tunerText(config.tuner) }]}
          onClose={onClose}
        />
      );
    case "import":
      return <ImportDialog id={id} profile={profile} onClose={onClose} />;
  }
}
