/** Every English text of the dashboard, by page. */
import { analysis } from "./analysis";
import { annotations, views } from "./annotations";
import { change } from "./change";
import { chart } from "./chart";
import { common, navigation } from "./common";
import { compare } from "./compare";
import { customTrial } from "./customTrial";
import { experimentCurves } from "./experimentCurves";
import { experiments } from "./experiments";
import { feed } from "./feed";
import { log } from "./log";
import { news } from "./news";
import { newExperiment } from "./newExperiment";
import { overview } from "./overview";
import { palette } from "./palette";
import { problems } from "./problems";
import { resources } from "./resources";
import { shortcuts } from "./shortcuts";
import { tensorboard } from "./tensorboard";
import { trial } from "./trial";
import { trials } from "./trials";
import { usage } from "./usage";

export const strings = {
  analysis,
  annotations,
  change,
  chart,
  common,
  compare,
  customTrial,
  experimentCurves,
  experiments,
  feed,
  log,
  navigation,
  newExperiment,
  news,
  overview,
  palette,
  problems,
  resources,
  shortcuts,
  tensorboard,
  trial,
  trials,
  usage,
  views,
} as const;
