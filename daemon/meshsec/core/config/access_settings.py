"""``[access]`` of ``meshsec.toml``: clients of this node (docs/reference/meshsec.toml.md)."""

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated

from msgspec import Meta, Struct

from meshsec.core.config.kinds import InterfaceName, IpAddress, NodeName, Prefix
from meshsec.core.config.radio_settings import SSID_MAX, Country, ssid_text
from meshsec.core.values.definition import Once, Rule, Wrong

NEEDS_OLSRV2D = "with routing.daemon = 'olsrv2d' only, which says at once where a client is"
CLIENTS_MAX = 96
"""With all of their addresses they are as many networks as olsrv2d takes at run time."""
_IPV4_LENGTHS = range(8, 29)
_IPV6_LENGTH = 64


class AccessSecurity(StrEnum):
    """How clients join the access point."""

    SAE = "sae"
    """WPA3."""
    MIXED = "mixed"
    """WPA3, and WPA2 for those who cannot."""


class AccessRadio(Struct, frozen=True):
    """``radio`` of ``[access]``: the access point of this node."""

    interface: Annotated[InterfaceName, Meta(description="the wireless interface")]
    ssid: Annotated[
        str,
        Rule(f"a text of 1 to {SSID_MAX} octets of UTF-8, printable", ssid_text),
        Meta(description="the name of the network, the same on all access nodes"),
    ]
    frequency: Annotated[int, Meta(ge=2412, le=5885, description="centre of the 20 MHz channel", extra={"unit": "MHz"})]
    security: Annotated[
        AccessSecurity, Meta(description="how clients join: `sae`, or `mixed` with WPA2 for old ones")
    ] = AccessSecurity.MIXED
    country: Country = None
    shares: Annotated[
        InterfaceName,
        Meta(
            description="the mesh interface whose radio the access point shares; `interface` is then made on it",
            extra={"default": "none"},
        ),
    ] = ""

    @property
    def channel(self) -> int | None:
        """Return the number of the channel (IEEE 802.11-2020, annex E); None: there is none at this frequency."""
        if self.frequency == 2484:
            return 14
        base, last = (2407, 13) if self.frequency < 5000 else (5000, 177)
        number, rest = divmod(self.frequency - base, 5)
        return number if not rest and 0 < number <= last else None

    def wrong(self, _given: object) -> Wrong:
        """Yield a frequency between the channels."""
        if self.frequency and self.channel is None:
            yield ("frequency",), "the centre of a channel: 2412, 2417 to 2472, 2484, or 5180 to 5885 in steps of 5 MHz"


class AccessSettings(Struct, frozen=True):
    """``[access]``."""

    networks: Annotated[
        tuple[Prefix, ...],
        Once("each network once"),
        Meta(
            max_length=2,
            description="the clients' networks, the same on all access nodes of the mesh: an IPv4 network of /8 to "
            "/28, an IPv6 network of /64, or one of both",
            extra={"allowed": "a list of at most 2 networks, such as ['10.130.0.0/16', 'fd12:3456:789a:1::/64']"},
        ),
    ] = ()
    peers: Annotated[
        tuple[NodeName, ...],
        Once("each peer once"),
        Meta(
            max_length=64,
            description="the other access nodes: peers that may serve the clients of these networks, at most 64",
            extra={"allowed": "a list of at most 64 peers' names, such as ['ridge', 'ford']"},
        ),
    ] = ()
    ports: Annotated[
        tuple[InterfaceName, ...],
        Once("each interface once"),
        Meta(
            max_length=16,
            description="wired interfaces to clients, at most 16; they need not exist yet",
            extra={"allowed": "a list of at most 16 interface names, such as ['eth1']"},
        ),
    ] = ()
    radio: Annotated[
        AccessRadio | None,
        Meta(
            description='the access point of this node: `{ interface = "wlan0", ssid = "valley", frequency = 5180 }`, '
            "and beside these `security`, `mixed` (WPA3 and WPA2) or `sae` (WPA3), `country`, and `shares`, the mesh "
            "interface whose radio it shares",
            extra={"default": "none"},
        ),
    ] = None
    clients: Annotated[
        int,
        Meta(ge=1, le=CLIENTS_MAX, description="clients that this node serves at a time, the same on all access nodes"),
    ] = 32
    isolated: Annotated[bool, Meta(description="clients cannot reach each other, on whichever node they are")] = False
    resolvers: Annotated[
        tuple[IpAddress, ...],
        Once("each address once"),
        Meta(
            max_length=4,
            description="DNS resolvers for clients, at most 4. Without any, this node answers them itself, by the "
            "resolvers of its resolv.conf",
            extra={"allowed": "a list of at most 4 addresses, such as ['192.0.2.53']"},
        ),
    ] = ()

    @property
    def answers_names(self) -> bool:
        """Return whether clients ask this node for names, as those of an IP version without ``resolvers`` do."""
        return not {one.version for one in self.networks} <= {one.version for one in self.resolvers}

    @property
    def ipv4(self) -> IPv4Network | None:
        """Return the clients' IPv4 network."""
        return next((one for one in self.networks if isinstance(one, IPv4Network)), None)

    @property
    def ipv6(self) -> IPv6Network | None:
        """Return the clients' IPv6 network."""
        return next((one for one in self.networks if isinstance(one, IPv6Network)), None)

    def wrong(self, _given: Mapping[str, object]) -> Wrong:
        """Yield networks that no address plan of clients can use, and what is of no use without any."""
        for index, one in enumerate(self.networks or ()):
            if isinstance(one, IPv4Network) and one.prefixlen not in _IPV4_LENGTHS:
                yield ("networks", index), "an IPv4 network of /8 to /28"
            if isinstance(one, IPv6Network) and one.prefixlen != _IPV6_LENGTH:
                yield ("networks", index), "an IPv6 network of /64, in which clients make their own addresses"
        versions = [one.version for one in self.networks or () if hasattr(one, "version")]
        if len(versions) == 2 and versions[0] == versions[1]:
            yield ("networks", 1), "one network of each IP version"
        for name in ("ports", "peers", "radio"):
            if getattr(self, name) and not versions:
                yield (name,), "only with networks = ['10.130.0.0/16', …]"
