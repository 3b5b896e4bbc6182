/** . */
export default function Overview({ id }: { id: string }) {
  return <h2>Overview {id}</h2>;
}
