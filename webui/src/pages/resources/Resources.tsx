/** All machines of the server's experiments. */
export default function Resources() {
  return <h2>Resources</h2>;
}
