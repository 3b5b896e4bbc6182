import { Link } from "wouter";
import { strings } from "@/strings";
import { useTitle } from "@/ui/useTitle";

export function NotFound() {
  useTitle(strings.common.notFoundTitle);
  return (
    <div className="stack">
      <h1>{strings.common.notFoundTitle}</h1>
      <p>{strings.common.notFoundText}</p>
      <p>
        <Link href="~/">{strings.navigation.allExperiments}</Link>
      </p>
    </div>
  );
}
