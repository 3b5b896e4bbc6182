/** Every English text of the dashboard, by page. */
import { common, navigation } from "./common";

export const strings = { common, navigation } as const;
