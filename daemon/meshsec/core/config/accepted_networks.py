"""``accept`` of ``[routing]``: which networks beyond the mesh this node routes to, and through whom."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

from msgspec import Meta, Struct, field

from meshsec.core.config.kinds import Prefix
from meshsec.core.networks.networks import originators
from meshsec.core.trust.identity import NAME_RULE, SELF_CERTIFYING, checked_name
from meshsec.core.values.definition import Rule, Wrong
from meshsec.core.values.model import Address, Card, Network
from meshsec.core.values.networks import Carriage

ACCEPTED_MAX = 256
"""The most that olsrv2d takes."""
_FROM_RULE = f"names of peers or originators of routers, at least one; a name has {NAME_RULE}"


def _sender(value: object) -> str | Address:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    try:
        return ip_address(value)
    except ValueError:
        return checked_name(value)


class AcceptedNetwork(Struct, frozen=True):
    """A network that certain routers may announce."""

    prefix: Annotated[Prefix, Meta(description="exactly this network")]
    senders: Annotated[
        tuple[Annotated[str | Address, Rule(_FROM_RULE, _sender)], ...],
        Meta(
            min_length=1,
            max_length=ACCEPTED_MAX,
            description="names of peers, and originators of the network's family",
            extra={"allowed": _FROM_RULE},
        ),
    ] = field(name="from")
    by: Annotated[
        Carriage,
        Meta(
            description="how its packets travel: in meshsec's `tunnel`, or in CHILD_SAs of their own with the networks "
            "as traffic `selectors`"
        ),
    ] = Carriage.TUNNEL

    def wrong(self, _given: object) -> Wrong:
        """Yield originators that cannot announce a network of this family, and selectors that cannot be."""
        if self.by is Carriage.SELECTORS and len(self.senders or ()) > 1:
            yield ("from",), "one peer: an SA with traffic selectors does not move to another (by = 'tunnel' does)"
        if self.by is Carriage.SELECTORS and getattr(self.prefix, "prefixlen", 1) == 0:
            yield (
                ("by",),
                "'tunnel' for a default route: traffic selectors for everything take packets to other peers, too",
            )
        version = getattr(self.prefix, "version", None)
        for index, sender in enumerate(self.senders or ()):
            if version and not isinstance(sender, str) and sender.version != version:
                rule = f"an originator of the network's family, IPv{version}, or a peer's name"
                yield ("from", index), rule


def overlaps(accepted: Iterable[AcceptedNetwork], own: Iterable[Network]) -> Iterator[tuple[int, str]]:
    """Yield the networks that overlap others: the index of each, and what is allowed.

    Default routes overlap nothing, because every other network is a part of them. ``own`` are those behind this node.
    """
    taken: list[tuple[Network, str, object]] = [(SELF_CERTIFYING, "in which the addresses of nodes lie", None)]
    taken += [(one, "which this node announces", None) for one in own if one.prefixlen]
    for index, one in enumerate(accepted):
        if not getattr(one.prefix, "prefixlen", 0):  # a prefix that was refused already is None
            continue
        clashes = (f"{other}, {why}" for other, why, who in taken if other.overlaps(one.prefix) and who != one.senders)
        if clash := next(clashes, None):
            yield index, f"a network that does not overlap {clash}"
        taken.append((one.prefix, "for which others may speak", one.senders))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The same with nothing but originators, and what could not be resolved."""

    networks: Mapping[Network, tuple[Address, ...]]
    problems: tuple[str, ...]


def resolve(accepted: Iterable[AcceptedNetwork], cards: Mapping[str, Sequence[Card]]) -> Accepted:
    """Replace the names of peers by what their cards let them be as originators of the network's family.

    ``cards`` are those of a peer's present and next key, by its name. A name of no peer is a problem and
    is left out, so that one peer who is not known yet does not take away the others.
    """
    networks: dict[Network, tuple[Address, ...]] = {}
    problems: list[str] = []
    for network in accepted:
        senders: list[Address] = []
        for sender in network.senders:
            if not isinstance(sender, str):
                senders.append(sender)
            elif sender not in cards:
                problems.append(
                    f"routing.accept: {network.prefix} from {sender!r}: there is no such peer; known: "
                    f"{', '.join(sorted(cards)) or 'none'}; `meshsec peer add {sender} CARD` adds it, then export again"
                )
            elif found := [one for card in cards[sender] for one in originators(card, network.prefix.version)]:
                senders += found
            else:
                problems.append(
                    f"routing.accept: {network.prefix} from {sender!r}: its card has no IPv4 address, so it cannot "
                    f"announce an IPv4 network; set ipv4 in [node] of its meshsec.toml, and add the card that "
                    f"`meshsec key show` then prints on {sender}"
                )
        if senders:
            networks[network.prefix] = tuple(dict.fromkeys(senders))
    return Accepted(networks, tuple(problems))
