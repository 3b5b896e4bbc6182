import { useSyncExternalStore } from "react";
import { liveStream } from "./queries";
import type { Connection } from "./stream";

/** Whether the server is heard. */
export function useConnection(): Connection {
  return useSyncExternalStore(liveStream.watch, liveStream.connection);
}
