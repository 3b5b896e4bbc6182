/** A function that acts at once, then at most once in `ms`: a call too early is made good at the end of it. */
export function paced(act: () => void, ms: number): () => void {
  let resting = false;
  let wanted = false;
  const turn = () => {
    resting = wanted;
    if (!wanted) return;
    wanted = false;
    setTimeout(turn, ms);
    act();
  };
  return () => {
    wanted = true;
    if (!resting) turn();
  };
}
