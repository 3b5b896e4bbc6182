/** Every English text of the dashboard, by page. */
import { common, navigation } from "./common";
import { shortcuts } from "./shortcuts";

export const strings = { common, navigation, shortcuts } as const;
