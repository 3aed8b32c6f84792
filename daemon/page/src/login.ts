/** Logs in by the address that `meshsec page login` prints, and makes changes. */

const KEY = "session";
/** The public key of the fleet for which the login approves nodes. */
const APPROVES = "approves";

export class RefusedError extends Error {}

/** Use up the token in the address, if there is one, and take it out of the address and of the history. */
export async function logInByAddress(): Promise<string> {
  const token = new URLSearchParams(location.hash.slice(1)).get("login");
  if (!token) return "";
  history.replaceState(null, "", location.pathname);
  try {
    const { session, approves } = await post<{ session: string; approves: string | null }>("/api/login", { token });
    sessionStorage.setItem(KEY, session);
    sessionStorage.setItem(APPROVES, approves ?? "");
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Begin again when a login is opened in a tab that shows the page already, which by itself loads nothing. */
export function followAddress(): void {
  addEventListener("hashchange", () => {
    if (new URLSearchParams(location.hash.slice(1)).has("login")) location.reload();
  });
}

export const isLoggedIn = (): boolean => sessionStorage.getItem(KEY) !== null;

export const approves = (): string => (isLoggedIn() ? (sessionStorage.getItem(APPROVES) ?? "") : "");

const changes = new EventTarget();

/** Call back when a login has ended. Return what stops that. */
export function whenLoginChanges(called: () => void): () => void {
  changes.addEventListener("ended", called);
  return () => changes.removeEventListener("ended", called);
}

export async function logOut(): Promise<void> {
  await post("/api/logout", {}).catch(() => undefined);
  forget();
}

function forget(): void {
  sessionStorage.removeItem(KEY);
  changes.dispatchEvent(new Event("ended"));
}

/** Make a change, and return what meshsecd answers. A login that has ended is forgotten. */
export async function change<Answer>(method: string, params: Record<string, unknown>): Promise<Answer> {
  return post<Answer>("/api/change", { method, params });
}

async function post<Answer>(path: string, body: unknown): Promise<Answer> {
  const session = sessionStorage.getItem(KEY);
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(session && { Authorization: `Bearer ${session}` }) },
    body: JSON.stringify(body),
  });
  const content = (await answer.json()) as Answer & { message?: string };
  if (answer.status === 401) forget();
  if (!answer.ok) throw new RefusedError(content.message ?? `the node answers ${answer.status}`);
  return content;
}
