"""Services as DNS-SD records (RFC 6763), by which clients of an access node find them: the list, and dnsmasq's form.

meshsecd writes the list, and `meshsec dns-sd` takes lines of one form only from it. No text of strangers is in it but
names of nodes and services, which have letters, digits and hyphens alone.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from meshsec.core.names.names import DOMAIN
from meshsec.core.services.protocols import application
from meshsec.core.services.services import Protocol, Service
from meshsec.core.values.host_names import LABEL_PATTERN

ADDRESS: Final = "127.0.0.1"
PORT: Final = 717
"""Where the dnsmasq that gives addresses asks for services: a port that only a privileged program can have, and that
IANA has given to none.
"""
SERVICES_MAX: Final = 512
"""Services that clients are shown: those of a type are in one answer of at most 64 kB."""
TTL_SECONDS: Final = 10
"""For which clients may keep an answer."""

_LINE = re.compile(rf"({LABEL_PATTERN}) ({LABEL_PATTERN}) (tcp|udp) ([1-9][0-9]{{0,4}})")
_LABEL_MAX: Final = 63


class DnsSdError(ValueError):
    """A text that meshsecd did not write. The message names the line."""


class Offered(NamedTuple):
    """A service of a node."""

    node: str
    """Its name on this node."""
    service: Service


def render(offered: Iterable[Offered]) -> str:
    """Return the list."""
    first = [*offered][:SERVICES_MAX]
    return "".join(f"{node} {one.name} {one.protocol} {one.port}\n" for node, one in first)


def parse(text: str) -> tuple[Offered, ...]:
    """Return what ``render`` wrote. Raises DnsSdError."""
    return tuple(_offered(number, line) for number, line in enumerate(text.splitlines(), 1))


def dnsmasq(offered: Iterable[Offered]) -> str:
    """Return the configuration of a dnsmasq that answers for services alone, and asks nobody."""
    return "\n".join((*_common(), *dict.fromkeys(_records(offered)))) + "\n"


def _offered(number: int, line: str) -> Offered:
    found = _LINE.fullmatch(line)
    if not found or int(found[4]) > 65535:
        raise DnsSdError(f"line {number} is {line!r}; allowed: a node, a service, tcp or udp, and a port")
    return Offered(found[1], Service(found[2], int(found[4]), Protocol(found[3])))


def _common() -> Iterator[str]:
    yield from (f"port={PORT}", f"listen-address={ADDRESS}", "bind-interfaces", "no-resolv", "no-hosts")
    yield from (f"local=/{DOMAIN}/", f"local-ttl={TTL_SECONDS}", "cache-size=0", "log-facility=-")
    for kind in ("b", "lb"):  # domains in which to look, and to look without being asked (RFC 6763, section 11)
        yield f"ptr-record={kind}._dns-sd._udp.{DOMAIN},{DOMAIN}"


def _records(offered: Iterable[Offered]) -> Iterator[str]:
    for node, service in offered:
        protocol = application(service)
        if not protocol:
            continue
        kind = f"_{protocol}._{service.protocol}.{DOMAIN}"
        instance = f'"{_instance(node, service)}.{kind}"'
        yield f"ptr-record=_services._dns-sd._udp.{DOMAIN},{kind}"  # section 9
        yield f"ptr-record={kind},{instance}"
        yield f"srv-host={instance},{node}.{DOMAIN},{service.port}"
        yield f"txt-record={instance}"  # empty, and it must be there (section 6.1)


def _instance(node: str, service: Service) -> str:
    """Return what people are shown. A long name of a service is cut and ends with the port, to stay unique."""
    room = _LABEL_MAX - len(node) - len(" on ")
    if len(service.name) <= room:
        return f"{service.name} on {node}"
    end = f"-{service.port}"
    return f"{service.name[: room - len(end)]}{end} on {node}"
