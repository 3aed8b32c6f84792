"""The guard in front of the IKE daemon: which datagrams to its ports reach it (ADR 0054). An nftables table as text.

Theory of operation. Everything in IKE_SA_INIT is unauthenticated, and a stranger on the link hears each first message
and can answer it sooner than the peer. charon believes the first answer. So the kernel sorts before charon reads:

- IKE and ESP-in-UDP come from the end points of peers only. Of other addresses only first messages pass, at a low
  rate, so that a node whose card is missing here still gets its refusal.
- After IKE_SA_INIT each message begins with an Encrypted payload (RFC 7296, section 3.14), or it is dropped.
- An answer to IKE_SA_INIT passes only when this node asked: the output chain notes the initiator's SPI of each request.
- An answer that begins with anything but an SA payload (an error, COOKIE, INVALID_KE_PAYLOAD) is held back for
  ``HOLD_MS``. The IKE daemon repeats its request meanwhile, and the peer's true answer passes at once. Only where
  nothing better comes does the unproven answer pass. A COOKIE is held back for ``COOKIE_HOLD_MS`` only, and again after
  each one that passes: a peer whose half-open places a forger has filled asks for it, and its true answer must come
  before the forged refusal passes. A forged COOKIE costs one round trip and no more.
- Two different responder SPIs for one request prove that somebody forges. The address is ``contested`` for
  ``CONTESTED_S``: of the answers in its name each passes with a chance of one in ``ODDS``, so that who is first is not
  always believed, and meshsecd repeats attempts at once (``Engine``).
- What no rule drops passes: that is the policy of the hook.
- First messages that bring a cookie back make the responder compute, so each address has a rate for them.

The table is no part of the wall: without it user data stays as protected as before (ADR 0003).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Any

from meshsec.core.trust.identity import locator_of
from meshsec.core.values.model import EspBackend, RulesSpec

TABLE = "meshsec_ike"


class Contest(StrEnum):
    """What more than one end said in the name of an address. The values are the names of the sets of addresses."""

    ANSWERED = "contested"
    """Somebody forges answers that begin as a true one does."""
    REFUSED = "denied"
    """A request was refused that was accepted as well: by somebody else, or by a peer that was told of this node only
    in between. Chance has no part in what passes then, for a refusal is held back anyway; but an attempt that failed
    says nothing about the peer."""


HOLD_MS = 500
"""Milliseconds for which an unproven answer is held back. charon repeats its request five times in that time, so a peer
within half a second of round trip has answered. A true refusal costs the time until the next repetition."""
COOKIE_HOLD_MS = 100
"""charon's third request is 0.15 s after its first, so the answer to the cookie comes well before ``HOLD_MS`` is over.
charon follows five cookies in one attempt: a listener's cookies last as long as his refusals are held back."""
ATTEMPT_S = 15
"""Seconds after its request within which an answer may come: charon gives an attempt up after 12 s."""
CONTESTED_S = 60
ODDS = 4
"""A stranger who answers each request once, and first, is then believed in about 4 of 7 attempts."""
COOKIE_RATE, COOKIE_BURST = 64, 64
"""First messages with a cookie, per second and address. Times ``half_open_timeout`` it bounds the half-open IKE_SAs
that a listener can make in one peer's name with cookies that he overhears."""
STRANGER_RATE, STRANGER_BURST = 10, 20
"""First messages per second of all nodes without a card."""
FIRST_RATE, FIRST_BURST = 5, 20
"""First messages per second on an uplink from one network: a linked node sends one for each uplink and attempt."""
FIRSTS_RATE, FIRSTS_BURST = 200, 400
"""The same of all networks. From 30 half-open SAs on charon asks for cookies, which costs it little."""
LATER_RATE, LATER_BURST = 50, 100
"""Other IKE messages per second from one network: charon looks up their SPIs and drops what it does not know."""
MOST = 65535
"""Entries of a set that grows by what comes in. A full set takes nothing more, and what is not in it does not pass."""

COUNTERS = ("strangers", "unprotected", "unasked", "unproven", "forged", "cookies", "ports", "outside")
"""Names of the counters of what the guard drops, by reason."""

_PORTS = "udp dport { 500, 4500 }"
_SA, _ENCRYPTED, _ENCRYPTED_FRAGMENT, _NOTIFY = 33, 46, 53, 41  # RFC 7296, section 3.2; RFC 7383
_IKE_SA_INIT = 34
_INVALID_KE_PAYLOAD, _FIRST_STATUS, _COOKIE = 17, 16384, 16390
"""Notify types after which the same responder may accept: another group, and those that are no error, as COOKIE."""
_INITIATOR, _RESPONSE = 0x08, 0x20  # RFC 7296, section 3.1


def render(spec: RulesSpec) -> str:
    """Write the transaction for ``nft -f`` that replaces the guard."""
    chains = [_input(spec), _output(), _peer(500, 0), _peer(4500, 4), _stranger()]
    chains += [_uplink()] if spec.perimeter.uplinks else []
    body = "\n".join([*(f"  counter {name} {{ }}" for name in COUNTERS), *_sets(spec), *chains])
    return f"add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{body}\n}}\n"


def end_points(spec: RulesSpec) -> list[IPv6Address]:
    """Return the addresses from which peers speak IKE. A removed peer's are among them while its SAs are closed."""
    peers = spec.locators if spec.backend is EspBackend.LIBIPSEC else _ipv6(spec.protected)
    barred = _ipv6(spec.barred)
    return sorted({*peers, *(barred if spec.backend is EspBackend.KERNEL else map(locator_of, barred))})


def addresses(listing: Iterable[Mapping[str, Any]]) -> frozenset[IPv6Address]:
    """Return the addresses in a listing of a ``Contest`` (``nft -j``). An element that times out is an object."""
    elements = [one for entry in listing for one in entry.get("set", {}).get("elem", [])]
    return frozenset(IPv6Address(one["elem"]["val"] if isinstance(one, dict) else one) for one in elements)


def _ipv6(addresses: Iterable[object]) -> set[IPv6Address]:
    return {address for address in addresses if isinstance(address, IPv6Address)}


def _sets(spec: RulesSpec) -> list[str]:
    peers = ", ".join(map(str, end_points(spec)))
    spi_i, spi_r = _Header(0).spi_i, _Header(0).spi_r
    return [
        f"  set peers {{ type ipv6_addr;{f' elements = {{ {peers} }}' if peers else ''} }}",
        _growing("asked", f"typeof {spi_i} . ip6 saddr", f"timeout {ATTEMPT_S}s"),
        _growing("held", f"typeof {spi_i}", f"timeout {HOLD_MS}ms"),
        _growing("delayed", f"typeof {spi_i}", f"timeout {COOKIE_HOLD_MS}ms"),
        _growing("asking", f"typeof {spi_i}", f"timeout {ATTEMPT_S}s"),
        _growing("met", f"typeof {spi_i}", f"timeout {ATTEMPT_S}s"),
        _growing("refused", f"typeof {spi_i}", f"timeout {ATTEMPT_S}s"),
        _growing("answered", f"typeof {spi_i}", f"timeout {ATTEMPT_S}s"),
        _growing("answers", f"typeof {spi_i} . {spi_r}", f"timeout {ATTEMPT_S}s"),
        _growing(Contest.ANSWERED, "type ipv6_addr", f"timeout {CONTESTED_S}s"),
        _growing(Contest.REFUSED, "type ipv6_addr", f"timeout {CONTESTED_S}s"),
        _growing("cookied", "type ipv6_addr", "timeout 10s"),
        *(_links_sets(spec) if spec.perimeter.uplinks else []),
    ]


def _growing(name: str, kind: str, timeout: str) -> str:
    return f"  set {name} {{ {kind}; flags dynamic,timeout; size {MOST}; {timeout}; }}"


class _Header:
    """The fields of the IKE header as raw expressions of nft (RFC 7296, section 3.1)."""

    def __init__(self, marker: int) -> None:
        """``marker``: octets between the UDP header and the IKE header (RFC 3948, section 2.2)."""
        start = 64 + 8 * marker
        self.spi_i, self.spi_r = f"@th,{start},64", f"@th,{start + 64},64"
        self.first = f"@th,{start + 128},8"
        """The type of the first payload."""
        self.exchange, self.flags = f"@th,{start + 144},8", f"@th,{start + 152},8"
        self.notify = f"@th,{start + 272},16"
        """The type of a Notify payload that is the first one (RFC 7296, section 3.10)."""


def _input(spec: RulesSpec) -> str:
    hooked = _chain(
        "input",
        "type filter hook input priority filter - 10; policy accept;",
        'iifname "lo" accept',
        *([f"iifname @uplinks {_PORTS} goto uplink"] if spec.perimeter.uplinks else []),
        "meta nfproto ipv6 udp dport { 500, 4500 } goto ike",
    )
    sorted_by_sender = _chain(
        "ike",
        "",
        "ip6 saddr != @peers goto stranger",
        "udp sport . udp dport vmap { 500 . 500 : goto peer500, 4500 . 4500 : goto peer4500 }",
        'counter name "ports" drop',
    )
    return f"{hooked}\n{sorted_by_sender}"


def _output() -> str:
    """Note the requests that this node sends, so that answers to others are known."""
    noted = [
        f"udp dport {port} {extra}{header.exchange} {_IKE_SA_INIT} {header.flags} & {_RESPONSE} == 0 "
        f"update @asked {{ {header.spi_i} . ip6 daddr }}"
        for port, extra, header in ((500, "", _Header(0)), (4500, "@th,64,32 0 ", _Header(4)))
    ]
    return _chain("output", "type filter hook output priority filter - 10; policy accept;", *noted)


def _peer(port: int, marker: int) -> str:
    """Return the rules for a peer's endpoint. ESP on port 4500 has an SPI where IKE has four zero octets."""
    header = _Header(marker)
    esp = ["@th,64,32 != 0 accept"] if marker else []
    encrypted = f"{{ {_ENCRYPTED}, {_ENCRYPTED_FRAGMENT} }}"
    pair = f"{header.spi_i} . {header.spi_r}"
    main = _chain(
        f"peer{port}",
        "",
        *esp,
        f"{header.exchange} != {_IKE_SA_INIT} {header.first} {encrypted} accept",
        f'{header.exchange} != {_IKE_SA_INIT} counter name "unprotected" drop',
        f"{header.flags} & {_RESPONSE} != 0 goto answer{port}",
        f"{header.first} {_NOTIFY} add @cookied {{ ip6 saddr limit rate over {COOKIE_RATE}/second "
        f'burst {COOKIE_BURST} packets }} counter name "cookies" drop',
    )
    answer = _chain(
        f"answer{port}",
        "",
        f'{header.spi_i} . ip6 saddr != @asked counter name "unasked" drop',
        f"{header.first} != {_SA} goto unproven{port}",
        f"{header.spi_i} @refused update @{Contest.REFUSED} {{ ip6 saddr }}",
        f"{pair} @answers goto chosen",
        f"{header.spi_i} @answered update @{Contest.ANSWERED} {{ ip6 saddr }}",
        f"add @answered {{ {header.spi_i} }}",
        f"add @answers {{ {pair} }}",
        "goto chosen",
    )
    hints = f"{{ {_INVALID_KE_PAYLOAD}, {_FIRST_STATUS}-65535 }}"
    unproven = _chain(
        f"unproven{port}",
        "",
        f"{header.first} {_NOTIFY} {header.notify} {_COOKIE} goto cookie{port}",
        f"{header.first} {_NOTIFY} {header.notify} != {hints} add @refused {{ {header.spi_i} }}",
        f'{header.spi_i} @held counter name "unproven" drop',
        f"{header.spi_i} @met accept",
        f"add @met {{ {header.spi_i} }} add @held {{ {header.spi_i} }}",
        'counter name "unproven" drop',
    )
    cookie = _chain(
        f"cookie{port}",
        "",
        f'{header.spi_i} @delayed counter name "unproven" drop',
        f"update @delayed {{ {header.spi_i} }}",
        f"{header.spi_i} @asking accept",
        f'add @asking {{ {header.spi_i} }} counter name "unproven" drop',
    )
    return "\n".join([main, answer, cookie, unproven])


def _stranger() -> str:
    """Return the rules for what comes from no peer's endpoint: first messages are refused, all else is dropped."""
    header = _Header(0)
    chosen = _chain(
        "chosen",
        "",
        f'ip6 saddr @{Contest.ANSWERED} numgen random mod {ODDS} != 0 counter name "forged" drop',
    )
    stranger = _chain(
        "stranger",
        "",
        f"udp sport 500 udp dport 500 {header.exchange} {_IKE_SA_INIT} {header.flags} {_INITIATOR} "
        f"limit rate {STRANGER_RATE}/second burst {STRANGER_BURST} packets accept",
        'counter name "strangers" drop',
    )
    return "\n".join([chosen, stranger])


def _links_sets(spec: RulesSpec) -> list[str]:
    uplinks = ", ".join(f'"{one}"' for one in sorted(spec.perimeter.uplinks))
    kinds = (("first4", "ipv4_addr"), ("first6", "ipv6_addr"), ("later4", "ipv4_addr"), ("later6", "ipv6_addr"))
    sets = (_growing(name, f"type {kind}", "timeout 10s") for name, kind in kinds)
    return [f"  set uplinks {{ type ifname; elements = {{ {uplinks} }} }}", *sets]


def _uplink() -> str:
    """Return the rules for what comes over the internet: a linked peer may come from any address, and any port.

    ESP on port 4500 has an SPI where IKE has four zero octets. IKE is bounded for each network of a provider's
    customer, and first messages in all: they alone make the IKE daemon keep a state.
    """
    plain, marked = _Header(0), _Header(4)
    begun = [
        f"udp dport {port} {header.exchange} {_IKE_SA_INIT} {header.flags} & {_RESPONSE} == 0 goto uplink_first"
        for port, header in ((500, plain), (4500, marked))
    ]
    uplink = _chain(
        "uplink",
        "",
        "udp dport 4500 @th,64,32 != 0 accept",
        *begun,
        *_over("later", LATER_RATE, LATER_BURST),
        "accept",
    )
    begins = _chain(
        "uplink_first",
        "",
        *_over("first", FIRST_RATE, FIRST_BURST),
        f"limit rate {FIRSTS_RATE}/second burst {FIRSTS_BURST} packets accept",
        'counter name "outside" drop',
    )
    return f"{begins}\n{uplink}"


def _over(name: str, rate: int, burst: int) -> list[str]:
    """Return the rules that drop what is too much from one network, /24 or /48."""
    limit = f'limit rate over {rate}/second burst {burst} packets }} counter name "outside" drop'
    return [
        f"meta nfproto ipv4 update @{name}4 {{ ip saddr & 255.255.255.0 {limit}",
        f"meta nfproto ipv6 update @{name}6 {{ ip6 saddr & ffff:ffff:ffff:: {limit}",
    ]


def _chain(name: str, hook: str, *rules: str) -> str:
    lines = "\n".join(f"    {rule}" for rule in (*([hook] if hook else []), *rules))
    return f"  chain {name} {{\n{lines}\n  }}"
