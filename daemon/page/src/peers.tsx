/** The peers, and one of them in detail. */

import { Component } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Peer } from "./document";
import { Section, State, Table } from "./parts";
import { bytes, moment } from "./words";

const TOO_OFTEN = 429;
const AGAIN_MS = 2000;

interface RowProps {
  peer: Peer;
  isChosen: boolean;
  choose: (name: string) => void;
}

/** One peer. A row is made again only when its peer has changed. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    return next.peer !== this.props.peer || next.isChosen !== this.props.isChosen;
  }

  render({ peer, isChosen, choose }: RowProps) {
    return (
      <tr class={isChosen ? "chosen" : ""}>
        <th scope="row">
          <button type="button" class="link" aria-pressed={isChosen} onClick={() => choose(isChosen ? "" : peer.name)}>
            {peer.name}
          </button>
        </th>
        <td>
          <State state={peer.state} />
        </td>
        <td>{peer.failure ?? peer.reason}</td>
        <td>{peer.hops ?? "–"}</td>
        <td>{peer.data_plane ?? "–"}</td>
        <td class="number">{bytes(peer.bytes_in)}</td>
        <td class="number">{bytes(peer.bytes_out)}</td>
      </tr>
    );
  }
}

interface PeersProps {
  peers: Record<string, Peer>;
  chosen: string;
  choose: (name: string) => void;
}

export function Peers({ peers, chosen, choose }: PeersProps) {
  const [wanted, setWanted] = useState("");
  const all = Object.values(peers);
  const shown = all.filter((peer) => peer.name.includes(wanted) || peer.state.includes(wanted));
  const isSafe = all.filter((peer) => peer.state === "protected").length;
  return (
    <Section id="peers" title="Peers">
      <p>
        {all.length ? `${isSafe} of ${all.length} are protected.` : "No peers: `meshsec peer add NAME CARD` adds one."}
      </p>
      {all.length > 0 && (
        <>
          <label>
            Name or state
            <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value.trim())} />
          </label>
          <Table caption="Peers" columns={["Name", "State", "Reason", "Hops", "Data plane", "In", "Out"]}>
            {shown.map((peer) => (
              <Row key={peer.name} peer={peer} isChosen={peer.name === chosen} choose={choose} />
            ))}
          </Table>
        </>
      )}
    </Section>
  );
}

/** Why the channel of a peer is as it is, in meshsecd's own sentences. */
export function Explanation({ peer }: { peer: Peer }) {
  const [sentences, setSentences] = useState<string[]>([]);
  useEffect(() => {
    const ended = new AbortController();
    const ask = async () => {
      const answer = await fetch(`/api/explain?peer=${encodeURIComponent(peer.name)}`, { signal: ended.signal });
      const view = (await answer.json()) as { sentences?: string[]; message?: string };
      setSentences(view.sentences ?? [view.message ?? ""]);
      if (answer.status === TOO_OFTEN) setTimeout(() => ended.signal.aborted || again(), AGAIN_MS);
    };
    const again = () => void ask().catch(() => undefined);
    again();
    return () => ended.abort();
  }, [peer.name, peer.state, peer.reason]);
  return (
    <div class="explanation">
      <p>
        <State state={peer.state} /> since {moment(peer.since)}
        {peer.route_to_protected_ms !== undefined && `, set up in ${Math.round(peer.route_to_protected_ms)} ms`}
        {peer.late && ", later than the policy allows"}
      </p>
      <ul>
        {sentences.map((sentence) => (
          <li>{sentence}</li>
        ))}
      </ul>
    </div>
  );
}
