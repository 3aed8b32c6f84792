"""What a frame of a client says: ARP (RFC 826), neighbour discovery (RFC 4861), and access points' own frames.

What this node gives a client by DHCP (RFC 2131) says so before the client uses it. What the client asks says how it
calls itself.

The octets come from strangers. A frame that is no such one, or too short, says nothing.
"""

from ipaddress import IPv4Address, IPv6Address
from typing import Final

from meshsec.core.access.clients import Sighting
from meshsec.core.values.host_names import label

ARP: Final = 0x0806
IPV6: Final = 0x86DD
LLC: Final = 0x0004
"""Linux's number for frames of IEEE 802.2. An access point sends one (XID) in a client's name when that has come."""
_ARP_HEAD: Final = bytes.fromhex("0001080006040001"), bytes.fromhex("0001080006040002")
"""Ethernet, IPv4, request and reply."""
_BOOTP_REPLY: Final = bytes.fromhex("020106")
"""A reply, for Ethernet."""
_DHCP_COOKIE: Final = bytes.fromhex("63825363")
_BOOTP_REQUEST: Final = bytes.fromhex("010106")
"""A request, for Ethernet."""
_MESSAGE_TYPE, _DHCPACK, _END = 53, 5, 255
_HOST_NAME, _FQDN = 12, 81
_FQDN_HEAD: Final = 3
"""Octets of flags before the name (RFC 4702, section 2)."""
_FQDN_IN_WIRE_FORM: Final = 0x04
_IPV6_FQDN: Final = 39
"""DHCPv6 (RFC 4704, section 4): one octet of flags, and the name in the DNS's own form."""
_UDP: Final = 17
_ICMPV6: Final = 58
_SOLICITATION, _ADVERTISEMENT = 135, 136
_ND_LENGTH: Final = 40 + 24


def sighting(mac: str, protocol: int, octets: bytes) -> Sighting | None:
    """Return what a frame says of its sender; None: nothing. ``octets`` are those behind the Ethernet header."""
    match protocol:
        case 0x0004:
            return Sighting(mac, arrives=True)
        case 0x0806:
            return _arp(mac, octets)
        case 0x86DD:
            return _neighbour_discovery(mac, octets)
    return None


def lease(octets: bytes) -> Sighting | None:
    """Return what an IPv4 packet of this node's own DHCP server gives a client; None: nothing."""
    bootp = octets[(octets[0] & 0x0F) * 4 + 8 :] if octets else b""
    if len(bootp) < 240 or bootp[:3] != _BOOTP_REPLY or bootp[236:240] != _DHCP_COOKIE:
        return None
    if _option(bootp[240:], _MESSAGE_TYPE) != bytes((_DHCPACK,)):
        return None
    given = IPv4Address(bootp[16:20])
    return None if given.is_unspecified else Sighting(bootp[28:34].hex(":"), given)


def called(mac: str, protocol: int, octets: bytes) -> str:
    """Return how a client calls itself in what it asks by DHCP or DHCPv6; empty: it does not say.

    A client speaks for its own MAC address alone.
    """
    if protocol == IPV6:
        return _called_by_ipv6(octets)
    bootp = octets[(octets[0] & 0x0F) * 4 + 8 :] if octets else b""
    if len(bootp) < 240 or bootp[:3] != _BOOTP_REQUEST or bootp[236:240] != _DHCP_COOKIE:
        return ""
    if bootp[28:34].hex(":") != mac:
        return ""
    full = _option(bootp[240:], _FQDN) or b""
    in_wire_form = bool(full[:1]) and bool(full[0] & _FQDN_IN_WIRE_FORM)
    said = full[_FQDN_HEAD:]
    return label(_option(bootp[240:], _HOST_NAME) or b"") or (_wire_label(said) if in_wire_form else label(said))


def _called_by_ipv6(octets: bytes) -> str:
    """Return the name of a message from a client (RFC 8415, section 8); relays are none."""
    if len(octets) < 52 or octets[6] != _UDP:
        return ""
    at = 52
    while at + 4 <= len(octets):
        code, length = int.from_bytes(octets[at : at + 2]), int.from_bytes(octets[at + 2 : at + 4])
        if code == _IPV6_FQDN:
            return _wire_label(octets[at + 5 : at + 4 + length])
        at += 4 + length
    return ""


def _wire_label(octets: bytes) -> str:
    """Return the first label of a name in the DNS's form: a length, and so many octets (RFC 1035, section 3.1)."""
    return label(octets[1 : 1 + octets[0]]) if octets and octets[0] < len(octets) else ""


def _option(octets: bytes, wanted: int) -> bytes | None:
    """Return a DHCP option's value (RFC 2132)."""
    at = 0
    while at + 1 < len(octets) and octets[at] != _END:
        if octets[at] == 0:
            at += 1
            continue
        length = octets[at + 1]
        if octets[at] == wanted:
            return octets[at + 2 : at + 2 + length]
        at += 2 + length
    return None


def _arp(mac: str, octets: bytes) -> Sighting | None:
    """An address of zero is a probe for another's (RFC 5227): the sender does not have it yet."""
    if len(octets) < 28 or octets[:8] not in _ARP_HEAD or octets[8:14].hex(":") != mac:
        return None
    sender = IPv4Address(octets[14:18])
    return Sighting(mac, None if sender.is_unspecified else sender)


def _neighbour_discovery(mac: str, octets: bytes) -> Sighting | None:
    """The unspecified source asks whether anybody has the address that it names (RFC 4862, section 5.4)."""
    if len(octets) < 48 or octets[6] != _ICMPV6 or octets[7] != 255:
        return None
    kind, source = octets[40], IPv6Address(octets[8:24])
    if kind == _SOLICITATION and source.is_unspecified and len(octets) >= _ND_LENGTH:
        return _named(mac, IPv6Address(octets[48:64]))
    if kind == _ADVERTISEMENT and len(octets) >= _ND_LENGTH:
        return _named(mac, IPv6Address(octets[48:64]))
    return _named(mac, source)


def _named(mac: str, address: IPv6Address) -> Sighting:
    says_nothing = address.is_link_local or address.is_multicast or address.is_unspecified
    return Sighting(mac, None if says_nothing else address)
