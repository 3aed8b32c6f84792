"""``accept`` of ``[routing]``: which networks beyond the mesh this node routes to, and through whom."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from meshsec.core.trust.identity import NAME_RULE, IdentityError, checked_name
from meshsec.core.values import tables
from meshsec.core.values.model import Address, Card, Network
from meshsec.core.values.tables import RefusedError, Table

ACCEPTED_MAX = 256
"""As many as olsrv2d takes."""
_EXAMPLE = "[{ prefix = '0.0.0.0/0', from = ['ridge'] }]"
_FROM_RULE = f"names of peers or originators of routers, at least one; a name has {NAME_RULE}"


@dataclass(frozen=True, slots=True)
class AcceptedNetwork:
    """A network that certain routers may announce."""

    prefix: Network
    senders: tuple[str | Address, ...]
    """Names of peers, and originators."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The same with nothing but originators, and what could not be resolved."""

    networks: Mapping[Network, tuple[Address, ...]]
    problems: tuple[str, ...]


def read_accepted(routing: Table) -> tuple[AcceptedNetwork, ...]:
    """Return the entries of ``accept``."""
    entries: Sequence[Mapping[str, object]] = routing.take("accept", _read_tables, [])
    found: dict[Network, AcceptedNetwork] = {}
    for index, entry in enumerate(entries):
        table = Table((*routing.path, "accept", index), entry, routing.problems)
        prefix = table.take("prefix", _read_prefix, None, required=True)
        nobody: tuple[str | Address, ...] = ()
        senders = table.take("from", _read_senders, nobody, required=True)
        _refuse_other_family(table, prefix, senders)
        if prefix in found:
            table.refuse(str(prefix), RefusedError("each prefix once, with all of its routers in 'from'"), "prefix")
        elif prefix is not None:
            found[prefix] = AcceptedNetwork(prefix, senders)
        table.refuse_the_rest()
    return tuple(found.values())


def resolve(accepted: Iterable[AcceptedNetwork], cards: Mapping[str, Sequence[Card]]) -> Accepted:
    """Replace the names of peers by what their cards let them be as originators of the network's family.

    ``cards`` are those of a peer's present and next key, by its name. A name that stands for nothing is a problem and
    is left out, so that one peer who is not known yet does not take away the others.
    """
    networks: dict[Network, tuple[Address, ...]] = {}
    problems: list[str] = []
    for network in accepted:
        originators: list[Address] = []
        for sender in network.senders:
            if not isinstance(sender, str):
                originators.append(sender)
            elif sender not in cards:
                problems.append(
                    f"routing.accept: {network.prefix} from {sender!r}: there is no such peer; known: "
                    f"{', '.join(sorted(cards)) or 'none'}; `meshsec peer add {sender} CARD` adds it, then export again"
                )
            elif found := [one for card in cards[sender] for one in _originators(card, network.prefix.version)]:
                originators += found
            else:
                problems.append(
                    f"routing.accept: {network.prefix} from {sender!r}: its card has no IPv4 address, so it cannot "
                    f"announce an IPv4 network; set ipv4 in [node] of its meshsec.toml, and add the card that "
                    f"`meshsec key show` then prints on {sender}"
                )
        if originators:
            networks[network.prefix] = tuple(dict.fromkeys(originators))
    return Accepted(networks, tuple(problems))


def _refuse_other_family(table: Table, prefix: Network | None, senders: tuple[str | Address, ...]) -> None:
    for index, sender in enumerate(senders):
        if prefix is not None and not isinstance(sender, str) and sender.version != prefix.version:
            allowed = RefusedError(f"an originator of the network's family, IPv{prefix.version}, or a peer's name")
            table.refuse(str(sender), allowed, "from", index)


def _originators(card: Card, version: int) -> tuple[Address, ...]:
    """Return what a peer may announce itself as: where its ESP runs is not known here (docs/architecture.md)."""
    if version == 6:
        return card.address, card.locator
    return (card.ipv4,) if card.ipv4 else ()


def _read_tables(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise RefusedError(f"a list of tables, such as {_EXAMPLE}")
    if len(value) > ACCEPTED_MAX:
        raise RefusedError(f"at most {ACCEPTED_MAX} entries", ACCEPTED_MAX)
    return value


def _read_prefix(value: object) -> Network | None:
    try:
        return ip_network(tables.text(value))
    except ValueError:
        raise RefusedError("ADDRESS/LENGTH with zeros behind LENGTH, such as '10.1.0.0/16' or '::/0'") from None


def _read_senders(value: object) -> tuple[str | Address, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= ACCEPTED_MAX:
        raise RefusedError(_FROM_RULE)
    return tuple(_read_sender(one, index) for index, one in enumerate(value))


def _read_sender(value: object, index: int) -> str | Address:
    if not isinstance(value, str):
        raise RefusedError(_FROM_RULE, index)
    try:
        return ip_address(value)
    except ValueError:
        pass
    try:
        return checked_name(value)
    except IdentityError:
        raise RefusedError(_FROM_RULE, index) from None
