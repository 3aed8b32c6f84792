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
                  {place(one)}/{one.protocol}
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

/** The name, as a link where a browser can open the service. */
function Name({ service }: { service: Service }) {
  const scheme = schemeOf(service);
  if (!scheme) return <>{service.name}</>;
  return (
    <a href={`${scheme}://${place(service)}/`} target="_blank" rel="noopener noreferrer">
      {service.name}
    </a>
  );
}

/** Return the address, which is the same for everybody. A node's name is what each other node calls it. */
function place(service: Service): string {
  return `[${service.address}]:${service.port}`;
}

/** Return by what a browser opens a service, judged by its name and by the ports that web servers use. */
function schemeOf({ name, protocol, port }: Service): "http" | "https" | undefined {
  if (protocol !== "tcp") return undefined;
  if (name.startsWith("https") || port === 443 || port === 8443) return "https";
  const isWeb = /^(http|web|www)/.test(name) || port === 80 || port === 3000 || port === 5000;
  return isWeb || (port >= 8000 && port < 9000) ? "http" : undefined;
}
