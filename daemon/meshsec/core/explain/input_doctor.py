"""Judges what the routing daemon refused lately: who floods, forges or invents."""

from meshsec.core.explain.findings import Check, Facts, Level
from meshsec.core.values.refusals import Refusal

_REFUSED = {
    "over_limit": (
        "its tables are full: {count} entries were refused or gave way to others",
        "somebody invents routers; trusted peers and neighbours that are long known keep their places.",
    ),
    "rate_limited": (
        "{count} messages were dropped, because more came than it processes",
        "somebody floods the mesh with routing messages.",
    ),
    "malformed": (
        "{count} packets or messages were no RFC 5444",
        "a broken router or somebody who tries what olsrv2d does with garbage.",
    ),
    "spoofed": (
        "{count} messages claimed an address of this node",
        "another node uses this node's key or addresses (`meshsec key show` on both), or somebody pretends to.",
    ),
    "disbelieved": (
        "{count} messages said what only another router may say, and were not believed",
        "somebody forges messages of other routers; no route was moved by them.",
    ),
    "forged": (
        "{count} messages had a false signature, or none although their router signs",
        "somebody forges messages, or a router no longer signs (`meshsec topology`); no route was moved by them.",
    ),
    "replayed": (
        "{count} signed messages were repeated",
        "somebody repeats recorded messages, or two nodes have one key; no route was moved by them.",
    ),
    "not_signed": (
        "{count} messages were not signed and were ignored",
        (
            'the routers in whose name they are do not sign: their [routing] signatures is "off", or they run olsrd2: '
            'set "prefer" there, or here until they sign. Who only passed the messages on is not at fault.'
        ),
    ),
}
"""What doctor says of each counter, and what that means."""

_FIND = (
    "find the sender by its hardware address, since IP addresses can be forged: `tcpdump -e -n -i {} udp port 269`; "
    'keep strangers out of a radio mesh with security = "sae" in [radio]'
)
_NAMED_SOURCES = 3
_ORDINARY = {"disbelieved": 150}
"""Number in two minutes that means nothing, by counter: 30 moving routers that lost one packet in five had 103."""


def refusals(facts: Facts) -> list[Check]:
    """Return a warning for each kind of refusal that is more than a moving mesh makes."""
    return [
        Check("routing input", Level.WARN, _refused(one), f"{_REFUSED[one.counter][1]} {_FIND.format(_where(one))}")
        for one in facts.refusals
        if one.counter in _REFUSED and one.count > _ORDINARY.get(one.counter, 0)
    ]


def _refused(refusal: Refusal) -> str:
    named = ", ".join(f"{one.address} on {one.interface} ({one.count})" for one in refusal.sources[:_NAMED_SOURCES])
    more = len(refusal.sources) + refusal.further_sources - _NAMED_SOURCES
    others = f" and {more} more addresses" if more > 0 else ""
    claimed = ", ".join(
        f"{one.originator} (through {one.address} on {one.interface}: {one.count})"
        for one in refusal.claims[:_NAMED_SOURCES]
    )
    found = _REFUSED[refusal.counter][0].format(count=refusal.count)
    sent = f"; most came from {named}{others}" if named else ""
    return f"{found} in the last two minutes{sent}" + (f"; most are in the name of {claimed}" if claimed else "")


def _where(refusal: Refusal) -> str:
    return refusal.sources[0].interface if refusal.sources else "any"
