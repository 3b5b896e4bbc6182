import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { useLocation } from "wouter";
import { experimentsQuery, type Summary } from "@/data/experiments";
import { strings } from "@/strings";
import { complain } from "@/ui/toasts";
import { remember, remembered } from "@/ui/remembered";
import { newsBetween } from "./news";

const KEY = "nnimgr.notifications";
const watchers = new Set<() => void>();

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

const wanted = (): boolean =>
  "Notification" in window && Notification.permission === "granted" && remembered(KEY) === true;

/** Whether this browser notifies its user of ends and better results. */
export function useNotifications(): boolean {
  return useSyncExternalStore(watch, wanted);
}

/** Turn the browser's notifications on, after the user has allowed them, or off. */
export async function wantNotifications(on: boolean): Promise<void> {
  if (on) {
    const answer = "Notification" in window ? await Notification.requestPermission() : "denied";
    if (answer !== "granted") complain(new Error(strings.news.denied));
  }
  remember(KEY, on);
  for (const watcher of watchers) watcher();
}

/** Shows a notification of the browser when an experiment ends or has a better result, if that is wanted. */
export function Notifications() {
  return useNotifications() ? <Notifier /> : null;
}

function Notifier() {
  const list = useQuery(experimentsQuery).data;
  const before = useRef<readonly Summary[] | undefined>(undefined);
  const [, navigate] = useLocation();
  useEffect(() => {
    if (list === undefined) return;
    for (const { id, title, text } of newsBetween(before.current ?? list, list)) {
      const shown = new Notification(title, { body: text, tag: id, icon: "/icon.svg" });
      shown.onclick = () => {
        window.focus();
        navigate(`/experiments/${id}`);
      };
    }
    before.current = list;
  }, [list, navigate]);
  return null;
}
