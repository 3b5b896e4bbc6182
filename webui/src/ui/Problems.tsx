/** Errors and warnings of a text, each with its line. */
import type { Schemas } from "@/api/client";
import { strings } from "@/strings";
import "./problems.css";

const texts = strings.problems;

export type ConfigProblem = Schemas["ConfigProblem"];

interface ProblemsProps {
  problems: readonly ConfigProblem[];
  onJump: (problem: ConfigProblem) => void;
  look?: "bad" | "warn";
}

/** Each with its line, which is a way there. */
export function Problems({ problems, onJump, look = "bad" }: ProblemsProps) {
  return (
    <ul className="problems">
      {problems.map((problem, at) => (
        <li key={at}>
          <Place problem={problem} look={look} onJump={onJump} />
          <div>
            {problem.field === null || problem.message.includes(problem.field) ? null : (
              <code>{problem.field} </code>
            )}
            {problem.message}
            {problem.nearest === null ? null : <div className="soft">{texts.nearest(problem.nearest)}</div>}
            {problem.valid.length === 0 ? null : (
              <div className="soft">{texts.valid(problem.valid.join(", "))}</div>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}

function Place({
  problem,
  look,
  onJump,
}: {
  problem: ConfigProblem;
  look: string;
  onJump: (problem: ConfigProblem) => void;
}) {
  if (problem.file !== null)
    return <span className={`badge ${look}`}>{texts.inFile(problem.file, problem.line)}</span>;
  if (problem.line === null) return null;
  return (
    <button
      type="button"
      className={`badge ${look} jump`}
      aria-label={texts.goTo(problem.line)}
      onClick={() => onJump(problem)}
    >
      {texts.line(problem.line)}
    </button>
  );
}

/** The problems of each line of the text itself. */
export function marksOf(problems: readonly ConfigProblem[]): ReadonlyMap<number, string> {
  const marks = new Map<number, string>();
  for (const { line, file, message } of problems) {
    if (line === null || file !== null) continue;
    const before = marks.get(line);
    marks.set(line, before === undefined ? message : `${before}\n${message}`);
  }
  return marks;
}
