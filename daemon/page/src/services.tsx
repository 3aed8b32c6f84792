/** What this node and the peers in reach offer. */

import type { Document, Service } from "./document";
import { Problems, Section, Table } from "./parts";

export function Services({ document }: { document: Document }) {
  if (!document.services) return null;
  const { services, problem } = document.services;
  return (
    <Section id="services" title="Services">
      <Problems problems={problem ? [`Peers cannot be heard: ${problem}`] : []} />
      {services.length > 0 ? (
        <Table caption="Services" columns={["Service", "Offered by", "Address", "Description"]}>
          {services.map((one) => (
            <tr key={`${one.node} ${one.name}`}>
              <th scope="row">
                <Name service={one} />
              </th>
              <td>{one.node}</td>
              <td>
                <code>
                  [{one.address}]:{one.port}/{one.protocol}
                </code>
              </td>
              <td>{one.description || "–"}</td>
            </tr>
          ))}
        </Table>
      ) : (
        <p>Neither this node nor a peer in reach offers anything.</p>
      )}
    </Section>
  );
}

/** The name, as a link where a browser or a player can open the service. */
function Name({ service }: { service: Service }) {
  if (!service.url) return <>{service.name}</>;
  return (
    <a href={service.url} target="_blank" rel="noopener noreferrer">
      {service.name}
    </a>
  );
}
