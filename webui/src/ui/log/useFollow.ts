import { useLayoutEffect, useRef, useState, type RefObject } from "react";

/**
 * Keeps the end in sight, until the reader scrolls up; at the end again, it follows again.
 *
 * `dropped`: pixels of lines that are kept no longer. Without following, what is read stays where it is.
 */
export function useFollow(
  start: boolean,
  version: number,
  dropped: number,
): {
  /** Of the element that scrolls. */
  box: RefObject<HTMLDivElement | null>;
  follow: boolean;
  setFollow: (follow: boolean) => void;
  onScroll: () => void;
} {
  const box = useRef<HTMLDivElement>(null);
  const [follow, setFollow] = useState(start);
  const before = useRef({ top: 0, dropped });

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    if (follow) element.scrollTop = element.scrollHeight;
    else if (dropped > before.current.dropped) element.scrollTop -= dropped - before.current.dropped;
    before.current = { top: element.scrollTop, dropped };
  }, [follow, version, dropped]);

  const onScroll = () => {
    const element = box.current;
    if (element === null) return;
    const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
    if (!atEnd && element.scrollTop < before.current.top - 1) setFollow(false);
    else if (atEnd && start && element.scrollTop > before.current.top) setFollow(true);
    before.current.top = element.scrollTop;
  };
  return { box, follow, setFollow, onScroll };
}
