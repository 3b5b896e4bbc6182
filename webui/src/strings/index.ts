/** Every English text of the dashboard, by page. */
import { common, navigation } from "./common";
import { customTrial } from "./customTrial";
import { log } from "./log";
import { shortcuts } from "./shortcuts";

export const strings = {
  common,
  customTrial,
  log,
  navigation,
  shortcuts,
} as const;
