/** Small parts that the sections share. */

import type { ComponentChildren } from "preact";

export function Section(props: { id: string; title: string; children: ComponentChildren }) {
  return (
    <section id={props.id} aria-labelledby={`${props.id}-title`}>
      <h2 id={`${props.id}-title`}>{props.title}</h2>
      {props.children}
    </section>
  );
}

/** A table that scrolls by itself where the screen is too narrow, and that a keyboard can scroll. */
export function Table(props: { caption: string; columns: string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" role="region" aria-label={props.caption} tabIndex={0}>
      <table>
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th scope="col">{column}</th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

const SIGNS: Record<string, string> = {
  ok: "✓",
  protected: "✓",
  warn: "!",
  fail: "✗",
  failed: "✗",
};

/** A state in words, with a sign and a colour beside. */
export function State(props: { state: string }) {
  return (
    <span class={`state ${props.state}`}>
      <span aria-hidden="true">{SIGNS[props.state] ?? "·"}</span> {props.state}
    </span>
  );
}

export function Problems(props: { problems: string[] }) {
  if (!props.problems.length) return null;
  return (
    <ul class="problems">
      {props.problems.map((problem) => (
        <li>{problem}</li>
      ))}
    </ul>
  );
}
