import { shownValue } from "./flat";
import { isRecord } from "./space";
import "./parameterTree.css";

/** A parameter set as a tree: nested choices can be folded. */
export function ParameterTree({ value, label }: { value: unknown; label?: string }) {
  if (!isRecord(value)) return <Leaf value={value} />;
  return (
    <dl className="parameter-tree" aria-label={label}>
      {Object.entries(value).map(([name, item]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {isRecord(item) ? (
              <details open>
                <summary>{shownValue(item._name ?? `{${Object.keys(item).length}}`)}</summary>
                <ParameterTree
                  value={Object.fromEntries(Object.entries(item).filter(([key]) => key !== "_name"))}
                  label={name}
                />
              </details>
            ) : (
              <Leaf value={item} />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Leaf({ value }: { value: unknown }) {
  return (
    <span className="mono" title={typeof value === "string" ? value : JSON.stringify(value)}>
      {shownValue(value)}
    </span>
  );
}
