/** . */
export default function ExperimentResources({ id }: { id: string }) {
  return <h2>ExperimentResources {id}</h2>;
}
