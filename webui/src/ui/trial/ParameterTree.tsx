import { formatNumber } from "@/ui/format";
import { isRecord } from "./space";
import "./parameterTree.css";

/** A parameter set as a tree: nested choices can be folded. */
export function ParameterTree({ value, label }: { value: unknown; label?: string }) {
  if (isRecord(value))
    return (
      <dl className="parameter-tree" aria-label={label}>
        {Object.entries(value).map(([name, item]) => (
          <div key={name}>
            {isRecord(item) ? (
              <dd className="branch">
                <details open>
                  <summary>{name}</summary>
                  <ParameterTree value={item} label={name} />
                </details>
              </dd>
            ) : (
              <>
                <dt>{name}</dt>
                <dd className="mono">
                  <Leaf value={item} />
                </dd>
              </>
            )}
          </div>
        ))}
      </dl>
    );
  return (
    <span className="mono">
      <Leaf value={value} />
    </span>
  );
}

function Leaf({ value }: { value: unknown }) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (typeof value === "number") return <span title={text}>{formatNumber(value)}</span>;
  return <span title={text}>{text}</span>;
}
