/** What an operator may change, after a login. */

import { useState } from "preact/hooks";
import { change, isLoggedIn, logOut } from "./login";
import { Section } from "./parts";

interface Props {
  peers: string[];
  /** Why the login by the address failed; empty: it did not. */
  refusal: string;
}

export function Change({ peers, refusal }: Props) {
  const [said, setSaid] = useState(refusal);
  const [, again] = useState(0);
  const make = async (method: string, params: Record<string, unknown>, done: string): Promise<boolean> => {
    try {
      await change<unknown>(method, params);
      setSaid(done);
      return true;
    } catch (error) {
      setSaid(error instanceof Error ? error.message : String(error));
      return false;
    }
  };
  return (
    <Section id="change" title="Change">
      <p role="status">{said}</p>
      {isLoggedIn() ? (
        <>
          <AddPeer make={make} />
          <RemovePeer make={make} peers={peers} />
          <button type="button" onClick={() => void logOut().then(() => again((count) => count + 1))}>
            Log out
          </button>
        </>
      ) : (
        <p>
          To add or remove peers here, run <code>meshsec page login</code> on this node and open the address that it prints.
        </p>
      )}
    </Section>
  );
}

type Make = (method: string, params: Record<string, unknown>, done: string) => Promise<boolean>;

function AddPeer({ make }: { make: Make }) {
  const [name, setName] = useState("");
  const [card, setCard] = useState("");
  const add = async (event: SubmitEvent) => {
    event.preventDefault();
    if (await make("peer_add", { name, card: card.trim() }, `${name} is a peer now. It must trust this node, too.`)) {
      setName("");
      setCard("");
    }
  };
  return (
    <form onSubmit={(event) => void add(event as unknown as SubmitEvent)}>
      <h3>Add a peer</h3>
      <label>
        Name
        <input required value={name} maxLength={32} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label>
        Card
        <textarea required rows={3} value={card} onInput={(event) => setCard(event.currentTarget.value)} />
      </label>
      <button type="submit">Add</button>
    </form>
  );
}

function RemovePeer({ make, peers }: { make: Make; peers: string[] }) {
  const [name, setName] = useState("");
  const remove = async (event: SubmitEvent) => {
    event.preventDefault();
    if (confirm(`Remove ${name}? Its traffic is dropped at once.`)) {
      if (await make("peer_remove", { name }, `${name} is no peer any more.`)) setName("");
    }
  };
  if (!peers.length) return null;
  return (
    <form onSubmit={(event) => void remove(event as unknown as SubmitEvent)}>
      <h3>Remove a peer</h3>
      <label>
        Peer
        <select required value={name} onChange={(event) => setName(event.currentTarget.value)}>
          <option value="">choose one</option>
          {peers.map((peer) => (
            <option key={peer} value={peer}>
              {peer}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">Remove</button>
    </form>
  );
}
