/**
 * The one event stream of a tab: which experiments have moved on.
 *
 * It connects again by itself, with a pause that doubles from 1 s to 15 s. It has no cursor of its own: what
 * is on the page is read again after each reconnect, from the cursors that the page holds.
 */

export type Connection =
  { state: "connecting" } | { state: "live" } | { state: "lost"; since: Date } | { state: "signed-out" };

export interface Listener {
  /** An experiment has moved on to this fact number. At most every PACE_MS for each. */
  changed(experiment: string, number: number): void;
  /** Connected again after a loss: anything may have changed. */
  reconnected(): void;
}

export const PACE_MS = 400;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15_000;

export class LiveStream {
  #connection: Connection = { state: "connecting" };
  #watchers = new Set<() => void>();
  #listener: Listener;
  #source: EventSource | null = null;
  #pause = FIRST_PAUSE_MS;
  #timer: number | undefined;
  #waiting = new Map<string, number>(); // experiment -> number that has not been told yet
  #told = new Map<string, number>(); // experiment -> when it was told last
  #everLive = false;

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  readonly connection = (): Connection => this.#connection;

  readonly watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  open(): void {
    const source = new EventSource("/api/v1/events");
    this.#source = source;
    source.onopen = () => {
      this.#pause = FIRST_PAUSE_MS;
      const again = this.#everLive;
      this.#everLive = true;
      this.#set({ state: "live" });
      if (again) this.#listener.reconnected();
    };
    source.addEventListener("changed", (event: MessageEvent<string>) => {
      const { experiment, number } = JSON.parse(event.data) as { experiment: string; number: number };
      this.#waiting.set(experiment, number);
      this.#tell();
    });
    source.onerror = () => {
      source.close();
      void this.#lost();
    };
    document.addEventListener("visibilitychange", this.#tell);
    window.addEventListener("online", this.#now);
  }

  close(): void {
    this.#source?.close();
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#tell);
    window.removeEventListener("online", this.#now);
  }

  readonly #now = (): void => {
    if (this.#connection.state === "lost") this.#reopen();
  };

  async #lost(): Promise<void> {
    const since = this.#connection.state === "lost" ? this.#connection.since : new Date();
    this.#set({ state: "lost", since });
    const status = await fetch("/api/v1/server").then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 401) {
      this.#set({ state: "signed-out" });
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#reopen(), this.#pause * (0.75 + Math.random() / 2));
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
  }

  #reopen(): void {
    this.close();
    this.open();
  }

  readonly #tell = (): void => {
    if (document.hidden) return;
    const now = performance.now();
    for (const [experiment, number] of this.#waiting) {
      const left = (this.#told.get(experiment) ?? -PACE_MS) + PACE_MS - now;
      if (left > 0) {
        setTimeout(this.#tell, left);
        continue;
      }
      this.#waiting.delete(experiment);
      this.#told.set(experiment, now);
      this.#listener.changed(experiment, number);
    }
  };

  #set(connection: Connection): void {
    this.#connection = connection;
    for (const watcher of this.#watchers) watcher();
  }
}
