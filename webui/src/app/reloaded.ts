/** What becomes of a page whose files cannot be loaded. */

const KEY = "nnimgr.reloaded";
const AGAIN_MS = 10_000;
const ASK_MS = 1000;

/**
 * Loads the whole dashboard again once the server answers: it is away, or an update has given its files other names.
 * Files that are missing right after that are a fault of the installation.
 */
export async function reloaded(error: unknown): Promise<never> {
  const last = Number(sessionStorage.getItem(KEY) ?? 0);
  if (Date.now() - last < AGAIN_MS) throw error;
  while (!(await answers())) await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  sessionStorage.setItem(KEY, String(Date.now()));
  location.reload();
  return new Promise<never>(() => undefined);
}

async function answers(): Promise<boolean> {
  try {
    return (await fetch(location.href, { method: "GET", cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
