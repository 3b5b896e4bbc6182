/** All experiments of the server. */
export default function Experiments() {
  return <h2>Experiments</h2>;
}
