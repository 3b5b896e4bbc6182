/** Reads a log as it is written, and goes on after the server was away. */
import { ApiError, request, sentenceOf } from "@/api/client";
import { liveStream } from "@/live/queries";
import { LogLines, MOST_LINES } from "./lines";

export type ReadingState =
  | { state: "opening" | "reading" | "following" | "ended" | "lost" }
  /** The server says why there is nothing to read (now). */
  | { state: "refused"; sentence: string };

const TELL_MS = 200;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15_000;

export class LogReading {
  #lines = new LogLines();
  #state: ReadingState = { state: "opening" };
  #version = 0;
  #watchers = new Set<() => void>();
  #timer: number | undefined;
  #abort = new AbortController();

  #address: string;
  #writing: boolean;

  /** @param address of the log, without a query's `tail` and `follow` */
  constructor(address: string, writing: boolean) {
    this.#address = address;
    this.#writing = writing;
  }

  /** Whether it is still being written: then the end of what the server sends is a loss. */
  setWriting(writing: boolean): void {
    this.#writing = writing;
  }

  get lines(): LogLines {
    return this.#lines;
  }

  get state(): ReadingState {
    return this.#state;
  }

  readonly version = (): number => this.#version;

  readonly watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  start(): void {
    this.#abort = new AbortController();
    void this.#run(this.#abort.signal);
  }

  stop(): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** For a log that was refused: it may be there now. */
  again(): void {
    this.stop();
    this.start();
  }

  async #run(signal: AbortSignal): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    for (;;) {
      try {
        if (await this.#read(signal)) pause = FIRST_PAUSE_MS;
        this.#set({ state: this.#writing ? "lost" : "ended" });
      } catch (error) {
        if (signal.aborted) return;
        this.#set(refusalIn(error) ?? { state: "lost" });
      }
      if (this.#state.state !== "lost") return;
      await untilBack(pause, signal);
      if (signal.aborted) return;
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }

  /** Reads to the end; whether anything came. What was read before is replaced by what comes. */
  async #read(signal: AbortSignal): Promise<boolean> {
    const following = this.#writing;
    const joint = this.#address.includes("?") ? "&" : "?";
    const query = `tail=${MOST_LINES}${following ? "&follow=true" : ""}`;
    const response = await request(`${this.#address}${joint}${query}`, { signal });
    const lines = new LogLines();
    this.#lines = lines;
    this.#set({ state: following ? "following" : "reading" });
    const reader = response.body?.getReader();
    if (reader === undefined) return false;
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      lines.append(decoder.decode(value, { stream: true }));
      this.#soon();
    }
    return lines.count > 0;
  }

  #set(state: ReadingState): void {
    this.#state = state;
    this.#soon();
  }

  #soon(): void {
    this.#timer ??= window.setTimeout(() => {
      this.#timer = undefined;
      this.#version += 1;
      for (const watcher of this.#watchers) watcher();
    }, TELL_MS);
  }
}

/** A server that is not there comes back; anything else is its answer. */
function refusalIn(error: unknown): ReadingState | null {
  if (!(error instanceof ApiError) || error.status === 0) return null;
  return { state: "refused", sentence: sentenceOf(error) };
}

/** A pause, which ends early when the server is heard again. */
async function untilBack(ms: number, signal: AbortSignal): Promise<void> {
  const wasLive = liveStream.connection().state === "live";
  await new Promise<void>((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      unwatch();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    const unwatch = liveStream.watch(() => {
      if (!wasLive && liveStream.connection().state === "live") finish();
    });
    signal.addEventListener("abort", finish);
  });
}
