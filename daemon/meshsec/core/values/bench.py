"""What `meshsec bench throughput` opens in the clear between two nodes, and the ports that it uses (ADR 0084)."""

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

CLEAR_PORT: Final = 17185
"""The only port that is ever open in the clear: of the node that serves with TCP, and of both nodes with UDP."""
FLOW_PORT: Final = 17186
"""The port of the measured flows inside IPsec or the overlay."""
TALK_PORT: Final = 17187
"""The port on which the node that serves is asked for flows, inside IPsec or the overlay."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The one flow that passes in the clear: between two addresses, by one port."""

    own: IPv6Address
    peer: IPv6Address
    """The addresses that the routers announce."""
    serves: bool
    """The peer connects to this node; else this node connects to the peer."""
