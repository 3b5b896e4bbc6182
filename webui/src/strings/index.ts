/** Every English text of the dashboard, by page. */
import { common, navigation } from "./common";
import { customTrial } from "./customTrial";
import { shortcuts } from "./shortcuts";

export const strings = {
  common,
  customTrial,
  navigation,
  shortcuts,
} as const;
