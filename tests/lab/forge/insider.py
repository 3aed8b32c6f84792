"""Speak IKEv2 and ESP as a peer that holds a trusted key and obeys no rule (RFC 7296, RFC 4303, RFC 3948).

charon refuses to send what a policy of its own forbids. An ``Insider`` sends whatever a test asks for: other traffic
selectors, another identity, inner packets of somebody else, notifies of its choice. It always initiates, over UDP port
4500, and knows one suite: AES-GCM-16-256, HMAC-SHA2-256, Curve25519, and Ed25519 signatures (RFC 8420).

It encapsulates ESP as a peer does (docs/development/architecture.md). With libipsec it claims a NAT, so that ESP is in
UDP, and uses tunnel mode. Where ESP is the kernel's it sends IP protocol 50, in transport mode between IPv6 addresses.
"""

import hmac
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import TracebackType
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.lab.basics.patience import patient
from tests.lab.forge.ike import notify
from tests.lab.net import namespaces
from tests.lab.net.traffic import udp_socket
from tests.lab.node import capabilities

PORT = 4500
IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA, INFORMATIONAL = 34, 35, 36, 37
SA, KE, IDI, IDR, AUTH, NONCE, NOTIFY, DELETE, TSI, TSR, SK = 33, 34, 35, 36, 39, 40, 41, 42, 44, 45, 46
ID_IPV6_ADDR, ID_FQDN, ID_KEY_ID = 5, 2, 11
BY_SECRET, BY_SIGNATURE, BY_NOTHING = 2, 14, 13
"""Authentication methods: shared key, digital signature (RFC 7427), NULL (RFC 7619)."""
AUTHENTICATION_FAILED, TS_UNACCEPTABLE, TEMPORARY_FAILURE = 24, 38, 43
NAT_DETECTION_SOURCE_IP, NAT_DETECTION_DESTINATION_IP, USE_TRANSPORT_MODE = 16388, 16389, 16391
SIGNATURE_HASH_ALGORITHMS, REDIRECT_SUPPORTED, REDIRECT = 16431, 16406, 16407

_MARKER = bytes(4)
_HEADER = struct.Struct("!8s8sBBBBII")
_VERSION, _INITIATOR = 0x20, 0x08
_ED25519 = bytes.fromhex("0730050603 2b6570")
"""Length and AlgorithmIdentifier in front of a signature (RFC 8420, appendix A)."""
_PAD = b"Key Pad for IKEv2"
_IPV4, _IPV6, _ESP, _HOP_LIMIT = 4, 41, 50, 64
"""Protocol numbers (IANA), and the hop limit of raw packets."""

Payload = tuple[int, bytes]
Network = tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address]
"""A traffic selector: the first address and the last, all protocols and ports."""


@dataclass
class Sa:
    """The outbound keys of one CHILD_SA, and the number of its last packet."""

    spi: bytes
    key: bytes
    transport: bool
    sequence: int = 0

    def sealed(self, data: bytes, protocol: int) -> bytes:
        """Return the next ESP packet (RFC 4303, section 2; RFC 4106)."""
        self.sequence += 1
        head = self.spi + struct.pack("!I", self.sequence)
        pad = -(len(data) + 2) % 4
        clear = data + bytes(range(1, pad + 1)) + bytes([pad, protocol])
        iv = struct.pack("!Q", self.sequence)
        return head + iv + AESGCM(self.key[:32]).encrypt(self.key[32:] + iv, clear, head)


@dataclass(frozen=True)
class Answer:
    """The payloads of a response, by type; empty when no response came."""

    payloads: tuple[Payload, ...] = ()

    def all(self, kind: int) -> list[bytes]:
        """Return the bodies of all payloads of one type."""
        return [body for found, body in self.payloads if found == kind]

    @property
    def notifies(self) -> set[int]:
        """The types of the notifies (RFC 7296, section 3.10)."""
        return {struct.unpack_from("!H", body, 2)[0] for body in self.all(NOTIFY)}

    def selectors(self, kind: int) -> list[Network]:
        """Return the traffic selectors of a TSi or TSr payload."""
        return [one for body in self.all(kind) for one in _selectors(body)]


class Insider:
    """One IKE_SA of a hostile initiator, from a namespace, between two locators."""

    def __init__(self, namespace: str, local: str, remote: str, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._ends = IPv6Address(local), IPv6Address(remote)
        self._socket = udp_socket(namespace, local, PORT)
        self._socket.settimeout(patient(0.5))
        self._is_bare = capabilities.probe().esp == "kernel"
        self._raw = namespaces.within(namespace, _raw_socket)
        self._spi_i, self._spi_r = os.urandom(8), bytes(8)
        self._secret, self._nonce = X25519PrivateKey.generate(), os.urandom(32)
        self._nonces = b""
        self._message = 0
        self._d = self._out = self._in = self._pi = b""
        self._established = False
        self.first = b""
        """The IKE_SA_INIT as this end signs it (RFC 7296, section 2.15)."""
        self.children: dict[bool, Sa] = {}
        """The last CHILD_SA of each mode; the key is whether that is transport mode."""
        self.tries = 30
        """How often a request is sent until a response comes, about once a second."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the IKE_SA: the other end would take the next one for its duplicate, and close either."""
        if self._established:
            self.tries = 1
            self.inform((DELETE, bytes([1, 0, 0, 0])))
        self._socket.close()
        self._raw.close()

    def init(self, *more: Payload) -> Answer:
        """Exchange IKE_SA_INIT and derive the keys of the IKE_SA (RFC 7296, section 2.14)."""
        own = _initial(self._secret.public_key().public_bytes_raw(), self._nonce)
        nat = () if self._is_bare else _FORGED_NAT
        answer, self.first = self._cleartext([*own, *nat, *more])
        if not answer.all(KE):
            return answer
        nonce = answer.all(NONCE)[0]
        self._nonces = self._nonce + nonce
        shared = self._secret.exchange(X25519PublicKey.from_public_bytes(answer.all(KE)[0][4:]))
        keys = _expand(_prf(self._nonces, shared), self._nonces + self._spi_i + self._spi_r, 32 + 2 * 36 + 2 * 32)
        self._d, self._out, self._in, self._pi = keys[:32], keys[32:68], keys[68:104], keys[104:136]
        return answer

    def authenticate(
        self,
        identity: str | Payload,
        sources: Sequence[Network],
        targets: Sequence[Network],
        *more: Payload,
        method: int = BY_SIGNATURE,
        secret: bytes = b"",
    ) -> Answer:
        """Exchange IKE_AUTH with an identity and traffic selectors of the test's choice."""
        kind, value = (ID_IPV6_ADDR, IPv6Address(identity).packed) if isinstance(identity, str) else identity
        body = bytes([kind, 0, 0, 0]) + value
        signed = self.first + self._nonces[32:] + _prf(self._pi, body)
        spi = os.urandom(4)
        payloads = [(IDI, body), (AUTH, bytes([method, 0, 0, 0]) + self._proof(method, signed, secret))]
        payloads += [(SA, _proposal(3, spi, _ESP_SUITE)), (TSI, _ts(sources)), (TSR, _ts(targets))]
        answer = self._protected(IKE_AUTH, [*payloads, *self._mode(sources, targets), *more])
        self._established = bool(answer.all(AUTH))
        self._keep_child(self._nonces, answer)
        return answer

    def another_child(self, sources: Sequence[Network], targets: Sequence[Network]) -> Answer:
        """Exchange CREATE_CHILD_SA for one more CHILD_SA (RFC 7296, section 1.3.1)."""
        spi, nonce = os.urandom(4), os.urandom(32)
        secret = X25519PrivateKey.generate()
        public = struct.pack("!HH", 31, 0) + secret.public_key().public_bytes_raw()
        payloads = [(SA, _proposal(3, spi, _ESP_SUITE_WITH_KE)), (NONCE, nonce), (KE, public)]
        selectors = [(TSI, _ts(sources)), (TSR, _ts(targets))]
        answer = self._protected(CREATE_CHILD_SA, [*payloads, *selectors, *self._mode(sources, targets)])
        if answer.all(SA):
            shared = secret.exchange(X25519PublicKey.from_public_bytes(answer.all(KE)[0][4:]))
            self._keep_child(shared + nonce + answer.all(NONCE)[0], answer)
        return answer

    def inform(self, *payloads: Payload) -> Answer:
        """Exchange INFORMATIONAL."""
        return self._protected(INFORMATIONAL, payloads)

    def send_inner(self, packet: bytes) -> None:
        """Send an IP packet through the last CHILD_SA of each mode, whatever its addresses are.

        In transport mode an IPv6 packet's header is the outer one, and an IPv4 packet goes inside as protocol 4.
        """
        assert self.children, "no CHILD_SA was negotiated"
        is_ipv6 = packet[0] >> 4 == 6
        for sa in self.children.values():
            if sa.transport and is_ipv6:
                self._send_raw(packet[8:40], sa.sealed(packet[40:], packet[6]))
            elif self._is_bare:
                ends = self._ends[0].packed + self._ends[1].packed
                self._send_raw(ends, sa.sealed(packet, _IPV6 if is_ipv6 else _IPV4))
            else:
                self._send(sa.sealed(packet, _IPV6 if is_ipv6 else _IPV4))

    def _proof(self, method: int, signed: bytes, secret: bytes) -> bytes:
        if method == BY_SIGNATURE:
            return _ED25519 + self._key.sign(signed)
        return _prf(_prf(secret, _PAD), signed)

    def _mode(self, sources: Sequence[Network], targets: Sequence[Network]) -> list[Payload]:
        """Ask for transport mode between IPv6 addresses where ESP is the kernel's (RFC 7296, section 1.3.1)."""
        is_ipv6 = all(first.version == 6 for first, _ in [*sources, *targets])
        return [notify(USE_TRANSPORT_MODE)] if self._is_bare and is_ipv6 else []

    def _keep_child(self, seed: bytes, answer: Answer) -> None:
        if answer.all(SA):
            transport = USE_TRANSPORT_MODE in answer.notifies
            self.children[transport] = Sa(answer.all(SA)[0][8:12], _expand(self._d, seed, 36), transport)

    def _cleartext(self, payloads: Sequence[Payload]) -> tuple[Answer, bytes]:
        first, body = _chain(payloads)
        message = self._head(first, IKE_SA_INIT, len(body)) + body
        for received in self._exchanged(message):
            if received[18] == IKE_SA_INIT:
                self._spi_r = received[8:16]
                self._message += 1
                return Answer(tuple(_payloads(received[16], received[28:]))), message
        return Answer(), message

    def _protected(self, exchange: int, payloads: Sequence[Payload]) -> Answer:
        first, body = _chain(payloads)
        iv = os.urandom(8)
        length = 4 + len(iv) + len(body) + 1 + 16
        head = self._head(SK, exchange, length) + struct.pack("!BBH", first, 0, length)
        message = head + iv + AESGCM(self._out[:32]).encrypt(self._out[32:] + iv, body + b"\0", head)
        for received in self._exchanged(message):
            if received[18] == exchange and received[16] == SK:
                return self._opened(received)
        return Answer()

    def _opened(self, message: bytes) -> Answer:
        iv = message[32:40]
        try:
            clear = AESGCM(self._in[:32]).decrypt(self._in[32:] + iv, message[40:], message[:32])
        except InvalidTag:
            return Answer()
        self._message += 1
        return Answer(tuple(_payloads(message[28], clear[: -1 - clear[-1]])))

    def _head(self, first: int, exchange: int, length: int) -> bytes:
        number = self._message
        return _HEADER.pack(self._spi_i, self._spi_r, first, _VERSION, exchange, _INITIATOR, number, 28 + length)

    def _exchanged(self, message: bytes) -> Iterator[bytes]:
        """Yield the responses to a request, which is repeated until one comes."""
        for _ in range(self.tries):
            self._send(_MARKER + message)
            deadline = time.monotonic() + patient(1.0)
            while time.monotonic() < deadline:
                try:
                    datagram = self._socket.recv(65535)
                except TimeoutError:
                    break
                if self._is_response(datagram):
                    yield datagram[4:]

    def _is_response(self, datagram: bytes) -> bool:
        if datagram[:4] != _MARKER or len(datagram) < 32 or datagram[4:12] != self._spi_i:
            return False
        number: int = struct.unpack_from("!I", datagram, 24)[0]
        return bool(datagram[23] & 0x20) and number == self._message

    def _send_raw(self, ends: bytes, esp: bytes) -> None:
        header = struct.pack("!IHBB", 6 << 28, len(esp), _ESP, _HOP_LIMIT) + ends
        self._raw.sendto(header + esp, (str(self._ends[1]), 0))  # by that route, whatever the header says

    def _send(self, datagram: bytes) -> None:
        try:
            self._socket.sendto(datagram, (str(self._ends[1]), PORT))
        except OSError:  # no route yet
            time.sleep(0.2)


def first_message() -> bytes:
    """Return an IKE_SA_INIT of a stranger, with a public key that is none."""
    first, body = _chain([*_initial(os.urandom(32), os.urandom(32)), *_FORGED_NAT])
    head = _HEADER.pack(os.urandom(8), bytes(8), first, _VERSION, IKE_SA_INIT, _INITIATOR, 0, 28 + len(body))
    return head + body


def payloads_of(message: bytes) -> list[Payload]:
    """Return the payloads of an IKE message in the clear."""
    return list(_payloads(message[16], message[28:]))


def only(address: str) -> Network:
    """Return the selector of one address."""
    return ip_address(address), ip_address(address)


ANY6: Network = (IPv6Address(0), IPv6Address(2**128 - 1))
ANY4: Network = (IPv4Address(0), IPv4Address(2**32 - 1))


def _initial(public: bytes, nonce: bytes) -> list[Payload]:
    hashes = notify(SIGNATURE_HASH_ALGORITHMS, struct.pack("!HH", 2, 5))
    exchange = [(SA, _proposal(1, b"", _IKE_SUITE)), (KE, struct.pack("!HH", 31, 0) + public), (NONCE, nonce)]
    return [*exchange, hashes]


_FORGED_NAT = (notify(NAT_DETECTION_SOURCE_IP, bytes(20)), notify(NAT_DETECTION_DESTINATION_IP, bytes(20)))
"""Claim a NAT, so that ESP is encapsulated in UDP."""


def _transform(kind: int, identity: int, bits: int = 0) -> bytes:
    attribute = struct.pack("!HH", 0x800E, bits) if bits else b""
    return struct.pack("!BBHBBH", 3, 0, 8 + len(attribute), kind, 0, identity) + attribute


_IKE_SUITE = (_transform(1, 20, 256), _transform(2, 5), _transform(4, 31))
_ESP_SUITE = (_transform(1, 20, 256), _transform(5, 0))
_ESP_SUITE_WITH_KE = (_transform(1, 20, 256), _transform(4, 31), _transform(5, 0))


def _proposal(protocol: int, spi: bytes, transforms: Sequence[bytes]) -> bytes:
    *others, last = transforms
    body = b"".join(others) + b"\0" + last[1:]
    length = 8 + len(spi) + len(body)
    return struct.pack("!BBHBBBB", 0, 0, length, 1, protocol, len(spi), len(transforms)) + spi + body


def _ts(networks: Sequence[Network]) -> bytes:
    found = [(8 if first.version == 6 else 7, first.packed + last.packed) for first, last in networks]
    body = b"".join(struct.pack("!BBHHH", kind, 0, 8 + len(ends), 0, 65535) + ends for kind, ends in found)
    return struct.pack("!BBH", len(networks), 0, 0) + body


def _selectors(body: bytes) -> Iterator[Network]:
    rest = body[4:]
    while rest:
        (length,) = struct.unpack_from("!H", rest, 2)
        ends, half = rest[8:length], (length - 8) // 2
        yield ip_address(ends[:half]), ip_address(ends[half:])
        rest = rest[length:]


def _chain(payloads: Iterable[Payload]) -> tuple[int, bytes]:
    listed = list(payloads)
    following = [kind for kind, _ in listed[1:]] + [0]
    pairs = zip(following, listed, strict=False)  # of no payload nothing follows
    parts = [struct.pack("!BBH", after, 0, 4 + len(body)) + body for after, (_, body) in pairs]
    return (listed[0][0] if listed else 0), b"".join(parts)


def _payloads(kind: int, octets: bytes) -> Iterator[Payload]:
    while kind and len(octets) >= 4:
        after, length = octets[0], struct.unpack_from("!H", octets, 2)[0]
        yield kind, octets[4:length]
        kind, octets = after, octets[length:]


def _raw_socket() -> socket.socket:
    """Open a socket for whole IPv6 packets, with any source."""
    return socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)


def _prf(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _expand(key: bytes, seed: bytes, length: int) -> bytes:
    """prf+ (RFC 7296, section 2.13)."""
    found = last = b""
    for number in range(1, length // 32 + 2):
        last = _prf(key, last + seed + bytes([number]))
        found += last
    return found[:length]
