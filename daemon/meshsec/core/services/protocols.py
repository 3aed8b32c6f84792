"""By which protocol of applications a service is used, which follows from its port (RFC 6335, section 5.1)."""

import re
from typing import Final

from meshsec.core.services.services import Protocol, Service

_TCP, _UDP = Protocol.TCP, Protocol.UDP
_BY_PORT: Final = {
    (_TCP, 21): "ftp",
    (_TCP, 22): "ssh",
    (_UDP, 53): "domain",
    (_TCP, 80): "http",
    (_UDP, 123): "ntp",
    (_TCP, 443): "https",
    (_TCP, 445): "smb",
    (_TCP, 554): "rtsp",
    (_TCP, 631): "ipp",
    (_TCP, 1883): "mqtt",
    (_TCP, 5222): "xmpp-client",
    (_TCP, 6667): "irc",
    (_TCP, 8080): "http",
    (_TCP, 8443): "https",
    (_UDP, 5060): "sip",
}
"""What IANA's registry of port numbers says, of what people offer each other in a mesh."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ftp": 21, "rtsp": 554}
"""What browsers and players open, with the port that an address leaves out."""
_OF_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9-]{1,15}")


def application(service: Service) -> str:
    """Return the protocol: that of the port, or else the service's own name; empty: that is too long for one."""
    found = _BY_PORT.get((service.protocol, service.port), service.name)
    return found if _OF_NAME.fullmatch(found) else ""


def url(service: Service, host: str) -> str | None:
    """Return the address that a browser or player opens; None: it opens none."""
    scheme = application(service)
    usual = _DEFAULT_PORTS.get(scheme) if service.protocol is Protocol.TCP else None
    if usual is None:
        return None
    return f"{scheme}://{host}/" if service.port == usual else f"{scheme}://{host}:{service.port}/"
