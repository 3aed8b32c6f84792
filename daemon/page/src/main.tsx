/** The page of one node. Each section is a file; what is not there yet gets a section of its own. */

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Clients, Gateways, Networks } from "./around";
import { Change } from "./change";
import type { Document } from "./document";
import { type Following, follow } from "./follow";
import { Health } from "./health";
import { Requests } from "./join";
import { followAddress, logInByAddress } from "./login";
import { Mesh } from "./mesh";
import { State } from "./parts";
import { Explanation, Peers } from "./peers";
import { Services } from "./services";
import { Events, OverTime } from "./time";

function Page({ refusal }: { refusal: string }) {
  const [following, setFollowing] = useState<Following>({ lost: "" });
  useEffect(() => void follow(setFollowing), []);
  const { document: shown, lost } = following;
  return (
    <>
      <Header document={shown} lost={lost} />
      <main id="content" class={lost || !shown?.meshsecd.up ? "stale" : ""}>
        {shown ? <Sections shown={shown} refusal={refusal} /> : <p>Asking the node …</p>}
      </main>
    </>
  );
}

function Header(props: { document: Document | undefined; lost: string }) {
  const { document: shown, lost } = props;
  const name = shown?.node?.name ?? "meshsec";
  useEffect(() => {
    document.title = name === "meshsec" ? name : `${name} – meshsec`;
  }, [name]);
  return (
    <header>
      <a class="skip" href="#content">
        To the content
      </a>
      <h1>{name}</h1>
      <p role="status">{lost ? `Not connected: ${lost}` : shown?.doctor && <State state={shown.doctor.verdict} />}</p>
    </header>
  );
}

function Sections({ shown, refusal }: { shown: Document; refusal: string }) {
  const [chosen, choose] = useState("");
  const { graph, node, peers = {}, figures, events = [] } = shown;
  const peer = peers[chosen];
  return (
    <>
      <Health document={shown} />
      <Requests requests={shown.requests ?? {}} />
      {graph && node && <Mesh graph={graph} own={node.name} chosen={chosen} choose={choose} />}
      {peer && <Explanation peer={peer} />}
      <Peers peers={peers} chosen={chosen} choose={choose} />
      <Services document={shown} />
      <Networks document={shown} />
      <Gateways document={shown} />
      <Clients document={shown} />
      {figures && <OverTime figures={figures} />}
      <Events events={events} />
      <Change peers={Object.keys(peers)} refusal={refusal} />
    </>
  );
}

followAddress();
const refusal = await logInByAddress();
const root = document.getElementById("page");
if (root) {
  root.replaceChildren();
  render(<Page refusal={refusal} />, root);
}
