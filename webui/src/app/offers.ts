/** What the command palette offers, and which of it matches what is typed. Pure. */

export interface Offer {
  /** Unique among all offers. */
  readonly id: string;
  readonly label: string;
  /** Further words that find the offer, such as an id. */
  readonly words?: string;
  /** What kind of thing it is, shown behind the label. */
  readonly kind: string;
  readonly run: () => void;
}

export const MOST_SHOWN = 12;

/** The offers in which every typed word begins a word, or stands somewhere; the former first. */
export function matching(offers: readonly Offer[], typed: string): Offer[] {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const scored = offers.flatMap((offer) => {
    const text = `${offer.label} ${offer.words ?? ""}`.toLowerCase();
    const begins = text.split(/[\s/#.:_-]+/);
    let score = 0;
    for (const word of wanted) {
      if (begins.some((each) => each.startsWith(word))) score += 2;
      else if (text.includes(word)) score += 1;
      else return [];
    }
    return [{ offer, score }];
  });
  return scored
    .sort((one, other) => other.score - one.score)
    .slice(0, MOST_SHOWN)
    .map(({ offer }) => offer);
}

/** The trial that is meant by a number such as `12`, `#12` or `trial 12`; null if none is. */
export function trialNumberIn(typed: string): number | null {
  const found = /^(?:trial\s*)?(?:no\.?\s*)?#?(\d{1,9})$/i.exec(typed.trim());
  return found === null ? null : Number(found[1]);
}
