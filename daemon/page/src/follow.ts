/** Fetches the document once, and follows its changes (Server-Sent Events). */

import { type Document, merged } from "./document";

const RETRY_MS = 1000;

export interface Following {
  document?: Document;
  /** Why the node does not answer; empty while it does. */
  lost: string;
}

/** Call `show` with the document, at first and after every change. */
export async function follow(show: (following: Following) => void): Promise<void> {
  let document: Document | undefined;
  for (;;) {
    try {
      const answer = await fetch("/api/document");
      if (!answer.ok) throw new Error(`the node answers ${answer.status}`);
      const whole = (await answer.json()) as { version: number; document: Document };
      document = whole.document;
      show({ document, lost: "" });
      await changes(whole.version, (patch) => {
        document = merged(document as never, patch as never) as unknown as Document;
        show({ document, lost: "" });
      });
    } catch (error) {
      show({ ...(document && { document }), lost: error instanceof Error ? error.message : String(error) });
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/**
 * Pass on changes since a version. Return when the document must be fetched again; throw when the node is lost.
 *
 * A page that is left gives its connection up: a browser may keep the page for the way back, and has six connections.
 */
function changes(after: number, apply: (patch: unknown) => void): Promise<void> {
  const source = new EventSource(`/api/changes?after=${after}`);
  const left = new AbortController();
  return new Promise<void>((resolve, reject) => {
    addEventListener("pagehide", () => reject(new Error("the page was left")), { signal: left.signal });
    source.onmessage = (event: MessageEvent<string>) => apply(JSON.parse(event.data));
    source.addEventListener("again", () => resolve());
    source.onerror = () => reject(new Error("the node does not answer"));
  }).finally(() => {
    source.close();
    left.abort();
  });
}
