"""The table of a gateway's uplink: addresses are translated, and nobody outside reaches into the mesh (nft(8)).

Which packets may go to the uplink at all is a matter of the fail-closed rules (``nft_networks``).
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from meshsec.core.access.shared_address import DEVICE as CLIENTS
from meshsec.core.channels.nft_text import chain, prefixes
from meshsec.core.networks.networks import DEVICE
from meshsec.core.values.gateway import Uplink, Way
from meshsec.core.values.model import Network

TABLE: Final = "meshsec_uplink"
_INSIDE = f'{{ "{DEVICE}", "{CLIENTS}" }}'


def render(uplink: Uplink, using: Iterable[Network]) -> str:
    """Return the table. ``using``: the networks behind this node, and its own addresses, which use its uplink, too."""
    translated = [
        *_translation("ip", uplink.ipv4, uplink),
        *_translation("ip6", uplink.ipv6, uplink),
    ]
    networks = [*using]
    sources = [f'iifname "{DEVICE}"']
    sources += [f"ip saddr {one}" for one in prefixes(networks, IPv4Network)]
    sources += [f"ip6 saddr {one}" for one in prefixes(networks, IPv6Network)]
    leaving = [f'oifname "{uplink.interface}" {source} jump translate' for source in sources]
    return "\n".join(
        [
            f"table inet {TABLE} {{",
            "  counter from_outside { }",
            chain("translate", translated),
            chain("postrouting", ["type nat hook postrouting priority srcnat; policy accept;", *leaving]),
            chain(
                "forward",
                [
                    "type filter hook forward priority filter + 5; policy accept;",
                    f'iifname "{uplink.interface}" ct state established,related accept',
                    f'iifname "{uplink.interface}" oifname {_INSIDE} counter name "from_outside" drop',
                ],
            ),
            "}\n",
        ]
    )


def _translation(family: str, way: Way, uplink: Uplink) -> list[str]:
    """Return the rules of one family. What NPT does not know leaves with the uplink's address."""
    masquerade = [f"meta nfproto {'ipv4' if family == 'ip' else 'ipv6'} masquerade"]
    if way is Way.NPT:
        mapping = f"ip6 saddr map {{ {uplink.inside} : {uplink.outside} }}"
        return [f"ip6 saddr {uplink.inside} snat ip6 prefix to {mapping}", *masquerade]
    return masquerade if way is Way.NAT else []
