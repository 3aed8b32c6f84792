/** This node, and what is wrong with it. */

import type { Check, Document } from "./document";
import { Problems, Section, State } from "./parts";

export function Health(props: { document: Document }) {
  const { meshsecd, node, daemons = {}, rules_stand: rules, problems = [], doctor } = props.document;
  const down = Object.entries(daemons).flatMap(([name, one]) => (one.up ? [] : [`${name} daemon: ${one.reason ?? "down"}`]));
  const known = [
    ...(meshsecd.up ? [] : [meshsecd.reason ?? "meshsecd does not answer"]),
    ...down,
    ...(rules === false ? ["the fail-closed rules are not in force"] : []),
    ...problems,
  ];
  const wrong = doctor?.checks.filter((check) => check.level !== "ok") ?? [];
  const fine = doctor?.checks.filter((check) => check.level === "ok") ?? [];
  return (
    <Section id="node" title="This node">
      {node && (
        <dl class="facts">
          <dt>Mesh address</dt>
          <dd>
            <code>{node.address}</code>
            {node.ipv4 && <code>{node.ipv4}</code>}
          </dd>
          <dt>Fingerprint</dt>
          <dd>
            <code class="long">{node.fingerprint}</code>
          </dd>
        </dl>
      )}
      <div aria-live="polite">
        {!known.length && !wrong.length && doctor && <p class="good">Nothing is wrong.</p>}
        <Problems problems={known} />
        {wrong.length > 0 && (
          <ul class="checks">
            {wrong.map((check) => (
              <Finding check={check} />
            ))}
          </ul>
        )}
      </div>
      {fine.length > 0 && (
        <details>
          <summary>{fine.length} checks are fine</summary>
          <ul class="checks">
            {fine.map((check) => (
              <Finding check={check} />
            ))}
          </ul>
        </details>
      )}
    </Section>
  );
}

function Finding({ check }: { check: Check }) {
  return (
    <li>
      <State state={check.level} /> <strong>{check.name}</strong>: {check.found}
      {check.mend && <p class="fix">Fix: {check.mend}</p>}
    </li>
  );
}
