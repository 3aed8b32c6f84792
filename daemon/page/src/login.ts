/** Logs in by the address that `meshsec page login` prints, and makes changes. */

const KEY = "session";

export class RefusedError extends Error {}

/** Use up the token in the address, if there is one, and take it out of the address and of the history. */
export async function logInByAddress(): Promise<string> {
  const token = new URLSearchParams(location.hash.slice(1)).get("login");
  if (!token) return "";
  history.replaceState(null, "", location.pathname);
  try {
    const { session } = await post<{ session: string }>("/api/login", { token });
    sessionStorage.setItem(KEY, session);
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

/** Return the headers by which the node knows who asks. */
export function authority(): Record<string, string> {
  const session = sessionStorage.getItem(KEY);
  return session ? { Authorization: `Bearer ${session}` } : {};
}

export async function logOut(): Promise<void> {
  await post("/api/logout", {}).catch(() => undefined);
  sessionStorage.removeItem(KEY);
}

/** Make a change. A login that has ended is forgotten. */
export async function change(method: string, params: Record<string, unknown>): Promise<void> {
  await post("/api/change", { method, params });
}

async function post<Answer>(path: string, body: unknown): Promise<Answer> {
  const session = sessionStorage.getItem(KEY);
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(session && { Authorization: `Bearer ${session}` }) },
    body: JSON.stringify(body),
  });
  const content = (await answer.json()) as Answer & { message?: string };
  if (answer.status === 401) sessionStorage.removeItem(KEY);
  if (!answer.ok) throw new RefusedError(content.message ?? `the node answers ${answer.status}`);
  return content;
}
