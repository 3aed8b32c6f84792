"""A node's identity: what follows from its Ed25519 key pair.

One key pair serves three purposes. The Ed25519 form authenticates IKE and is what a card carries. Its X25519 form
(the same key through the birational map of RFC 7748, section 4.1) is the key of the overlay. The address is a hash
of the X25519 form, so that nobody can claim an address without its key.
"""

import re
from collections.abc import Callable, Iterable
from hashlib import sha256, sha512
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from meshsec.core.values.model import Card, Network

KEY_LENGTH = 32
"""Octets of a seed and of a public key, in both forms (RFC 8032, section 5.1; RFC 7748, section 5)."""
NAME_RULE = "1 to 32 characters of a-z, 0-9 and '-', the first and the last not '-'"
IPV4_RULE = "a unicast IPv4 address outside 0/8, 127/8, 169.254/16 and 240/4"
SELF_CERTIFYING = IPv6Network("fc00::/8")
"""Where the addresses of nodes lie, each of which follows from its node's key."""
NETWORKS_MAX = 4
"""Networks on a card, which people read out: a LAN and the way out in both IP versions."""
NETWORK_RULE = f"a unicast network outside {SELF_CERTIFYING}, 127/8, 169.254/16 and fe80::/10"

_ADDRESS_OCTET = 0xFC
_LOCATOR_OCTET = 0xFD
_GENERATION_LIMIT = 100_000
"""One key in 256 will do, so a sound source of randomness exceeds this once in 10^169 times."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_MONTGOMERY_A = 486662


class IdentityError(ValueError):
    """A key, a name or an address that no node can have. The message says which value and what is allowed."""


def generate(new_seed: Callable[[], bytes]) -> bytes:
    """Return a seed (RFC 8032 private key, 32 octets) from ``new_seed`` whose address begins with fc.

    ``new_seed`` must give 32 fresh random octets at each call; about 256 are needed.
    """
    for _ in range(_GENERATION_LIMIT):
        seed = new_seed()
        if is_mesh_address(address_of(x25519_public(public_key_of(seed)))):
            return seed
    raise IdentityError(f"no key in {_GENERATION_LIMIT} has an address in fc00::/8: the seeds are not random")


def public_key_of(seed: bytes) -> bytes:
    """Return the Ed25519 public key of a seed (RFC 8032, section 5.1.5)."""
    return raw_public_key(Ed25519PrivateKey.from_private_bytes(seed).public_key())


def raw_public_key(key: Ed25519PublicKey) -> bytes:
    """Return the 32 bytes of a public key (RFC 8032, section 5.1.5), also with cryptography 38 of Debian 12."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def x25519_private(seed: bytes) -> bytes:
    """Return the X25519 form of a seed: the clamped scalar of RFC 8032, section 5.1.5, steps 1 and 2."""
    scalar = bytearray(sha512(seed).digest()[:KEY_LENGTH])
    scalar[0] &= 0xF8
    scalar[31] = scalar[31] & 0x7F | 0x40
    return bytes(scalar)


def x25519_public(public_key: bytes) -> bytes:
    """Return the X25519 form of an Ed25519 public key: u = (1 + y) / (1 - y) (RFC 7748, section 4.1).

    Raises IdentityError for what is no point of the curve (RFC 8032, section 5.1.3) and for points of small order,
    with which any two nodes would share the same secret.
    """
    y = _checked_y(public_key)
    return ((1 + y) * pow(1 - y, -1, _P) % _P).to_bytes(KEY_LENGTH, "little")


def address_of(x25519_public_key: bytes) -> IPv6Address:
    """Return the first 16 octets of SHA-512(SHA-512(key)), as in cjdns."""
    return IPv6Address(sha512(sha512(x25519_public_key).digest()).digest()[:16])


def is_mesh_address(address: IPv6Address) -> bool:
    """Return whether ``address`` is in fc00::/8, as every node's is."""
    return address.packed[0] == _ADDRESS_OCTET


def locator_of(address: IPv6Address) -> IPv6Address:
    """Return the address with the first octet 0xfd: where IKE runs when ESP is in user space."""
    return IPv6Address(bytes([_LOCATOR_OCTET]) + address.packed[1:])


def stale_addresses(assigned: Iterable[IPv4Address | IPv6Address], own: Iterable[object]) -> frozenset[IPv6Address]:
    """Return the addresses of other keys among those on this node's loopback device, and their locators.

    fc00::/8 holds nothing but addresses of nodes. One that is not this node's was left by a key that it had before,
    and packets to the node that has it now would end here.
    """
    others = {one for one in assigned if isinstance(one, IPv6Address)} - set(own)
    nodes = {one for one in others if is_mesh_address(one)}
    return frozenset(nodes | {locator_of(one) for one in nodes} & others)


def make_card(
    name: str,
    public_key: bytes,
    ipv4: IPv4Address | None = None,
    *,
    by_secret: bool = False,
    networks: Iterable[Network] = (),
) -> Card:
    """Return the card of a node, with all that follows from its key. Raises IdentityError."""
    address = address_of(x25519_public(public_key))
    if not is_mesh_address(address):
        raise IdentityError(f"the key's address is {address}, which is not in fc00::/8: no node makes such a key")
    return Card(
        name=checked_name(name),
        public_key=public_key,
        address=address,
        locator=locator_of(address),
        fingerprint=sha256(public_key).digest(),
        ipv4=None if ipv4 is None else checked_ipv4(ipv4),
        by_secret=by_secret,
        networks=checked_networks(networks),
    )


def checked_networks(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Return the networks of a card in order. Raises IdentityError if a node may not ask to speak for them."""
    found = sorted(set(networks), key=lambda one: (one.version, one))
    if len(found) > NETWORKS_MAX:
        raise IdentityError(f"the card has {len(found)} networks; allowed: {NETWORKS_MAX}")
    for one in found:
        first = one.network_address
        inside = one.prefixlen and one.version == SELF_CERTIFYING.version and one.overlaps(SELF_CERTIFYING)
        if inside or first.is_multicast or first.is_link_local or first.is_loopback:
            raise IdentityError(f"the network is {one}; allowed: {NETWORK_RULE}")
    return tuple(found)


def checked_name(name: str) -> str:
    """``name`` when a node may have it, else IdentityError."""
    if not _NAME.fullmatch(name):
        raise IdentityError(f"the name is {name!r}; allowed: {NAME_RULE}")
    return name


def checked_ipv4(address: IPv4Address) -> IPv4Address:
    """``address`` when a node may have it in the mesh, else IdentityError."""
    unfit = address.is_multicast or address.is_loopback or address.is_link_local or address.is_reserved
    if unfit or address.packed[0] == 0:
        raise IdentityError(f"the IPv4 address is {address}; allowed: {IPV4_RULE}")
    return address


def _checked_y(public_key: bytes) -> int:
    if len(public_key) != KEY_LENGTH:
        raise IdentityError(f"the key has {len(public_key)} octets; allowed: {KEY_LENGTH}")
    y = int.from_bytes(public_key, "little") & (1 << 255) - 1
    if y >= _P or not _is_on_curve(y):
        raise IdentityError(f"the key {public_key.hex()} is no point of the curve Ed25519")
    if _has_small_order(y):
        raise IdentityError(f"the key {public_key.hex()} is a point of small order: it protects nothing")
    return y


def _is_on_curve(y: int) -> bool:
    """Return whether x^2 = (y^2 - 1) / (d y^2 + 1) has a root, by Euler's criterion on the product."""
    square = (y * y - 1) * (_D * y * y + 1)
    return pow(square, (_P - 1) // 2, _P) in (0, 1)


def _has_small_order(y: int) -> bool:
    """Return whether eight times the point is the neutral element: three doublings of u = x/z (RFC 7748, section 5)."""
    x, z = 1 + y, 1 - y
    for _ in range(3):
        x, z = (x * x - z * z) ** 2 % _P, 4 * x * z * (x * x + _MONTGOMERY_A * x * z + z * z) % _P
    return z == 0
