/** Idempotency keys: a request that is repeated after a lost answer has the key that it had before. */

/** The key of a request with this content: a new one, unless its last answer has not come. */
export class RequestKeys {
  private content = "";
  private key = "";

  of(content: unknown): string {
    const text = JSON.stringify(content);
    if (this.key === "" || text !== this.content) this.key = randomKey();
    this.content = text;
    return this.key;
  }

  /** The answer has come: the same content is another request now. */
  answered(): void {
    this.key = "";
  }
}

/** As crypto.randomUUID, which browsers have on secure addresses only. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
