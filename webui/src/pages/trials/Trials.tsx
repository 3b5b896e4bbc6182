/** . */
export default function Trials({ id }: { id: string }) {
  return <h2>Trials {id}</h2>;
}
