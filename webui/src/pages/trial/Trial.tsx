/** . */
export default function Trial({ id, trialId }: { id: string; trialId: string }) {
  return (
    <h2>
      {id} {trialId}
    </h2>
  );
}
