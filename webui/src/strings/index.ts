/** Every English text of the dashboard, by page. */
import { chart } from "./chart";
import { common, navigation } from "./common";
import { customTrial } from "./customTrial";
import { experiments } from "./experiments";
import { feed } from "./feed";
import { log } from "./log";
import { shortcuts } from "./shortcuts";

export const strings = {
  chart,
  common,
  customTrial,
  experiments,
  feed,
  log,
  navigation,
  shortcuts,
} as const;
