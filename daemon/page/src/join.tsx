/** Nodes that ask to join a fleet of this node, and what a login says to them (ADR 0081). */

import "./join.css";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Request } from "./document";
import { approves, change, isLoggedIn, whenLoginChanges } from "./login";
import { Section } from "./parts";
import { moment } from "./words";

/** What is on the card in a photo, as meshsecd reads it. */
interface Read {
  name: string;
  fingerprint: string;
  words: string[];
  asks: boolean;
}

/** A request that waits for the person's yes. */
interface Opened {
  key: string;
  /** Whether a photo has shown the same key, so that nobody need compare words. */
  photo: boolean;
}

const CARD = "meshsec1";

export function Requests({ requests }: { requests: Record<string, Request> }) {
  const [said, setSaid] = useState("");
  const [opened, open] = useState<Opened>();
  const [stranger, setStranger] = useState<Read & { card: string }>();
  const [, again] = useState(0);
  useEffect(() => whenLoginChanges(() => again((count) => count + 1)), []);
  const listed = Object.entries(requests);
  const close = (text: string) => {
    setSaid(text);
    open(undefined);
    setStranger(undefined);
  };
  /** Do something and say what came of it. */
  const trying = async (work: () => Promise<string>) => {
    setStranger(undefined);
    setSaid("One moment …");
    try {
      setSaid(await work());
    } catch (error) {
      close(error instanceof Error ? error.message : String(error));
    }
  };
  const make = (method: string, params: Record<string, unknown>, done: string) =>
    trying(async () => {
      await change(method, params);
      open(undefined);
      return done;
    });
  const look = (file: Blob) =>
    trying(async () => {
      const card = await cardIn(file);
      const read = await change<Read>("card_read", { card });
      const found = listed.find(([, one]) => one.fingerprint === read.fingerprint);
      const other = opened && requests[opened.key];
      if (other && other.fingerprint !== read.fingerprint) {
        open(undefined);
        return `The photo shows the card of ${read.name}, and not that of ${other.name} that asks. Do not approve it.`;
      }
      if (!found && read.asks) return `${read.name} asks to join since this moment: once it is listed, show the photo again.`;
      if (!found) {
        setStranger({ ...read, card });
        return `The photo shows the card of ${read.name}, which does not ask to join.`;
      }
      open({ key: found[0], photo: true });
      return `The photo shows the card of ${read.name}, which asks to join.`;
    });
  if (!listed.length && !isLoggedIn()) return null;
  return (
    <Section id="requests" title="Nodes that ask to join">
      <p role="status">{said}</p>
      {listed.length ? (
        <ul class="requests">
          {listed.map(([key, request]) => (
            <Asked key={key} request={request}>
              {isLoggedIn() &&
                (opened?.key === key ? (
                  <Confirmation request={request} photo={opened.photo} make={make} cancel={() => close("")} />
                ) : (
                  <Buttons request={request} open={() => open({ key, photo: false })} make={make} />
                ))}
            </Asked>
          ))}
        </ul>
      ) : (
        <p>No node asks to join.</p>
      )}
      {isLoggedIn() ? <Photo look={look} /> : <p>A login on this node approves or refuses them.</p>}
      {stranger && <Stranger read={stranger} make={make} />}
    </Section>
  );
}

type Make = (method: string, params: Record<string, unknown>, done: string) => Promise<void>;

function Asked({ request, children }: { request: Request; children: ComponentChildren }) {
  const { name, fleet, words, since, via, namesake, networks } = request;
  return (
    <li>
      <h3>{name}</h3>
      <p class="spoken">{words.join(" ")}</p>
      <p>
        Asks to join {fleet}
        {since ? `, since ${moment(since)}` : ""}. {via ? `It came through ${via}.` : "It is this node itself."}
      </p>
      {namesake && <p class="bad">Another node, {namesake}, has this name. Give the new one a name of its own.</p>}
      {networks.length > 0 && (
        <p>
          It asks to speak for {networks.join(", ")}. Approved here, it may not; <code>meshsec fleet approve --networks</code> allows it.
        </p>
      )}
      {children}
    </li>
  );
}

function Buttons({ request, open, make }: { request: Request; open: () => void; make: Make }) {
  const { name, fingerprint, words } = request;
  const refuse = () => {
    if (confirm(`Refuse ${name}?\n${words.join(" ")}`)) void make("join_refuse", { fingerprint }, `${name} is refused.`);
  };
  return (
    <p class="buttons">
      {approves() === request.fleet_key ? (
        <button type="button" onClick={open}>
          Approve<span class="hidden"> {name}</span> …
        </button>
      ) : (
        <span>
          <code>meshsec page login --approve</code> prints a login that approves.
        </span>
      )}
      <button type="button" onClick={refuse}>
        Refuse<span class="hidden"> {name}</span> …
      </button>
    </p>
  );
}

function Confirmation(props: { request: Request; photo: boolean; make: Make; cancel: () => void }) {
  const { request, photo, make, cancel } = props;
  const { name, fleet, fingerprint, words } = request;
  const done = `${name} is a member of ${fleet}: all members know it.`;
  const shown = useRef<HTMLFieldSetElement>(null);
  useEffect(() => shown.current?.focus(), []);
  return (
    <fieldset ref={shown} tabIndex={-1}>
      <legend>Approve {name}</legend>
      {photo ? (
        <p>
          The photo has the same key as the request: <strong>{words.join(" ")}</strong>
        </p>
      ) : (
        <p>
          The screen of {name} shows six words, and <code>meshsec status</code> there does, too. Are they <strong>{words.join(" ")}</strong>?
        </p>
      )}
      <p class="buttons">
        <button type="button" onClick={() => void make("join_approve", { fingerprint }, done)}>
          {photo ? "Approve" : "They are the same: approve"}
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </p>
    </fieldset>
  );
}

function Photo({ look }: { look: (file: Blob) => Promise<void> }) {
  const chosen = (input: HTMLInputElement) => {
    const file = input.files?.[0];
    input.value = ""; // so that the same file can be chosen again
    if (file) void look(file);
  };
  return (
    <label>
      Photo of the QR code on the node's screen
      <input type="file" accept="image/jpeg,image/png" capture="environment" onChange={(event) => chosen(event.currentTarget)} />
    </label>
  );
}

/** A card that does not ask to join can be a peer's. */
function Stranger({ read, make }: { read: Read & { card: string }; make: Make }) {
  const { name, card, words } = read;
  const add = () => void make("peer_add", { name, card }, `${name} is a peer now. It must trust this node, too.`);
  return (
    <p class="buttons">
      Its six words: <span class="spoken">{words.join(" ")}</span>
      <button type="button" onClick={add}>
        Add {name} as a peer
      </button>
    </p>
  );
}

/** Return the card in a photo. Raises what the person is to read. */
async function cardIn(file: Blob): Promise<string> {
  const { textIn } = await import("./photo").catch(() => {
    throw new Error("the part of the page that reads photos does not load: reload the page");
  });
  const text = await textIn(file);
  if (!text.toLowerCase().startsWith(CARD)) throw new Error("the QR code in this photo is no node's card");
  return text;
}
