/** Networks, clients and gateways: what is reached through the mesh. */

import type { Document, Network } from "./document";
import { Problems, Section, Table } from "./parts";

export function Networks({ document }: { document: Document }) {
  const { networks = [], own_networks: own = [], links = [] } = document;
  return (
    <Section id="networks" title="Networks">
      <p>{own.length ? `Behind this node: ${own.join(", ")}.` : "No networks are behind this node."}</p>
      {networks.length > 0 ? <NetworkTable caption="Networks behind peers" networks={networks} /> : <p>None is behind peers.</p>}
      {links.map((link) => (
        <div>
          Link over the internet to {link.peer}: {link.up ? "it carries" : "it does not carry"}.
          <Problems problems={link.problems} />
        </div>
      ))}
    </Section>
  );
}

function NetworkTable(props: { caption: string; networks: Network[] }) {
  return (
    <Table caption={props.caption} columns={["Network", "Through", "Ready", "Problem"]}>
      {props.networks.map((one) => (
        <tr>
          <th scope="row">
            <code>{one.network}</code>
          </th>
          <td>{one.peer ?? "nobody"}</td>
          <td>{one.ready.join(", ") || "–"}</td>
          <td class={one.problem ? "bad" : ""}>{one.problem || "–"}</td>
        </tr>
      ))}
    </Table>
  );
}

export function Gateways({ document }: { document: Document }) {
  if (!document.gateway) return null;
  const { gateway, unwatched, ways_out: ways } = document.gateway;
  return (
    <Section id="gateways" title="Ways out">
      <p>
        {gateway.uplink
          ? `This node is a gateway by ${gateway.uplink}. It offers ${gateway.offers.join(", ") || "nothing"}.`
          : "This node is no gateway."}
      </p>
      <Problems problems={[...gateway.problems, ...(unwatched ? [`Gateways are not watched: ${unwatched}`] : [])]} />
      {ways.length > 0 && <NetworkTable caption="Ways out through peers" networks={ways} />}
    </Section>
  );
}

export function Clients({ document }: { document: Document }) {
  if (!document.clients?.networks.length) return null;
  const { clients, most, nodes, refused, problems } = document.clients;
  const here = clients.filter((client) => client.here).length;
  return (
    <Section id="clients" title="Clients">
      <p>
        {here} of at most {most} are here. Other access nodes in reach: {nodes.join(", ") || "none"}.
      </p>
      <Problems problems={[...problems, ...refused.map((one) => `Refused, ${one.count} times: ${one.mac}: ${one.reason}`)]} />
      {clients.length > 0 && (
        <Table caption="Clients" columns={["Client", "Name", "At", "Addresses"]}>
          {clients.map((client) => (
            <tr>
              <th scope="row">
                <code>{client.mac}</code>
              </th>
              <td>{client.name ?? "–"}</td>
              <td>{client.node ?? "here"}</td>
              <td>
                <code>{client.addresses.join(", ")}</code>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}
