/** A new experiment from YAML. */
export default function NewExperiment() {
  return <h2>NewExperiment</h2>;
}
