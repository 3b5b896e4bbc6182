/** . */
export default function Analysis({ id }: { id: string }) {
  return <h2>Analysis {id}</h2>;
}
