"""Which relays are avoided because they route and drop, in words: for ``explain``, ``status`` and ``doctor``."""

from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import IPv6Address
from typing import NamedTuple

from meshsec.core.explain.findings import Check, Level
from meshsec.core.paths.avoidance import Avoidance, Decision, Mark, What, carries_for
from meshsec.core.paths.watch import Standing
from meshsec.core.values.model import Address

Names = Callable[[Address], str]
"""Returns the name of a node, or its address."""

_FIX = (
    "nothing has to be done: the relay is tried again by itself. If this lasts, look at its firewall and at its links "
    "to the nodes behind it; `meshsec explain NAME` of a peer says more"
)
_SAID = {
    What.ON_TRIAL: ": nothing gets through to {peers} over it; it is avoided while another way is tried",
    What.LEFT: ": nothing got through to {peers} over it, who answer by another way: avoided",
    What.PROVED: (
        ": what is for {peers} does not arrive over it again, and does by another way: avoided; "
        "it, or somebody behind it, drops"
    ),
    What.ACQUITTED: ": no other way leads to {peers} either, so it is used again",
    What.TRIED_AGAIN: ": it is used again for {peers}, and left if packets still do not arrive over it",
}


class Relays(NamedTuple):
    """What is known of relays at one moment."""

    now: float
    standings: Mapping[IPv6Address, Standing]
    avoidance: Avoidance
    names: Names


def decided(decision: Decision, names: Names) -> str:
    """Return a line of the journal."""
    peers = ", ".join(map(names, decision.peers)) or "nobody"
    called = _called(decision.relay, decision.peers, names)
    return f"{called.removeprefix('the ')}{_SAID[decision.what].format(peers=peers)}"


def sentences(known: Relays, peer: IPv6Address) -> Iterator[str]:
    """Yield what ``explain`` says of the relays on the way to a peer."""
    standing = known.standings.get(peer)
    if standing is not None and standing.silent:
        yield _explain_silence(known, peer, standing)
    for relay, mark in known.avoidance.marks.items():
        if peer in mark.accusers:
            avoided = _avoided(known, relay, mark)
            yield f"{avoided[0].upper()}{avoided[1:]}."
            if standing is not None and standing.first_hop == relay:
                yield f"{known.names(relay)} is used all the same, because the router knows no other way."


def problems(known: Relays) -> list[str]:
    """Return what ``status`` reports."""
    marks = known.avoidance.marks.items()
    return [_avoided(known, relay, mark) for relay, mark in marks if mark.left]


def checks(known: Relays, unheard: str) -> list[Check]:
    """Return doctor's checks. ``unheard``: why no relay can be avoided; empty: it can."""
    if unheard:
        return [Check("relays", Level.OK, f"one that routes and drops is not left: {unheard}")]
    return [Check("relays", Level.WARN, problem, _FIX) for problem in problems(known)]


def _explain_silence(known: Relays, peer: IPv6Address, standing: Standing) -> str:
    relay = known.names(standing.first_hop)
    found = f"Nothing gets through to the peer over {relay}, although the routing daemon has this way."
    if (other := carries_for(peer, known.standings)) is not None:
        carried = known.names(other)
        return f"{found} {relay} carries what is for {carried}: the peer is off, or somebody further on drops."
    if known.avoidance.is_resting(known.now, peer):
        return f"{found} No other way helped: the peer is off, or drops itself, or every way does."
    return found


def _called(relay: Address, accusers: Collection[IPv6Address], names: Names) -> str:
    """Return what is avoided: a relay, or the link to a peer that is the first hop itself."""
    name = names(relay)
    return f"the link to {name}" if {names(peer) for peer in accusers} == {name} else f"the relay {name}"


def _avoided(known: Relays, relay: Address, mark: Mark) -> str:
    why = "nothing gets through over it, and another way is tried"
    if mark.left:
        why = "nothing got through over it, and another way carries"
    if mark.proved:
        why = "packets over it do not arrive; it, or somebody behind it, drops them"
        why += f", {mark.times} times so far" if mark.times > 1 else ""
    called = _called(relay, mark.accusers, known.names)
    return f"{called} is avoided for {max(0.0, mark.until - known.now):.0f} s more: {why}"
