/** Every English text of the dashboard, by page. */
import { common, navigation } from "./common";
import { chart } from "./chart";
import { customTrial } from "./customTrial";
import { experiments } from "./experiments";
import { feed } from "./feed";
import { log } from "./log";
import { overview } from "./overview";
import { shortcuts } from "./shortcuts";
import { trials } from "./trials";

export const strings = {
  chart,
  common,
  customTrial,
  experiments,
  feed,
  log,
  navigation,
  overview,
  shortcuts,
  trials,
} as const;
