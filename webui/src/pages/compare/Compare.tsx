/** . */
export default function Compare({ id }: { id: string }) {
  return <h2>Compare {id}</h2>;
}
