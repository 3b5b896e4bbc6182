import { useEffect, useRef, useState, type ReactNode } from "react";

const MARGIN = "200px"; // drawn a little before it is scrolled into sight

/** Makes its content when it is scrolled into sight for the first time; before, its place is kept. */
export function InSight({ children }: { children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (element === null || seen) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) setSeen(true);
      },
      { rootMargin: MARGIN },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [seen]);
  return (
    <div ref={place} className="in-sight">
      {seen ? children : null}
    </div>
  );
}
