"""Why packets to a network travel as they do, in plain sentences: the text of ``meshsec explain NETWORK``."""

from collections.abc import Collection, Iterator
from ipaddress import ip_network
from typing import Any

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.network_events import candidates, carries, of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.explain.networks_view import foreign_announcements, shown_network
from meshsec.core.networks.choice import NO_ROUTE, Candidate
from meshsec.core.networks.networks import originators
from meshsec.core.values.model import Network, peer_name
from meshsec.core.values.networks import OtherRoute


def asked_network(text: str) -> Network | None:
    """Return the network that a text names; an address is a network of one address. None: it names neither."""
    try:
        return ip_network(text)
    except ValueError:
        return None


def whose(known: Situation, asked: Network) -> str | None:
    """Return the name of the peer whose own address was asked for."""
    if asked.prefixlen < asked.max_prefixlen:
        return None
    found = (one.title for one in known.channels() if one.card and asked.network_address in originators(one.card))
    return next(found, None)


def containing(known: Situation, asked: Network) -> Network | None:
    """Return the smallest protected network that contains what was asked for; None if there is none."""
    found = [one for one in (*known.networks.grants, *known.networks.own) if _contains(one, asked)]
    return max(found, key=lambda one: one.prefixlen, default=None)


def explain_network(
    known: Situation, network: Network, asked: Network, others: Collection[OtherRoute] = ()
) -> dict[str, Any]:
    """Return why packets to a protected network travel as they do.

    ``asked`` is a part of it that was asked for, and ``others`` are the routes that lead past the tunnel.
    """
    view = (
        shown_network(known, network)
        if network in known.networks.grants
        else {"peer": None, "problem": "", "limit": ""}
    )
    return {
        "schema": "meshsec-explain-network-1",
        "network": str(network),
        "own": network in known.networks.own,
        "peer": view["peer"],
        "problem": view["problem"],
        "sentences": [*_sentences(known, network, view, others), *_client(known, asked), _rules(known, network)],
    }


def of_peer(known: Situation, channel: Channel) -> Iterator[str]:
    """Yield a sentence for each network that the peer may speak for or announces."""
    card = channel.card
    if card is None:
        return
    for network in known.networks.grants:
        if known.networks.may_speak(network, channel.title, card):
            yield _of_peer(known, network, channel)
    yield from (
        f"Its card asks to speak for {network}, which does not count: {why}."
        for (peer, network), why in known.networks.refused.items()
        if peer == peer_name(channel.title)
    )
    yield from (
        f"It announces {one.network} and may not speak for it, so this node does not use that."
        for one in foreign_announcements(known, channel)
    )


def _contains(network: Network, asked: Network) -> bool:
    return network.version == asked.version and network.overlaps(asked) and network.prefixlen <= asked.prefixlen


def _sentences(
    known: Situation, network: Network, view: dict[str, Any], others: Collection[OtherRoute]
) -> Iterator[str]:
    if network in known.networks.shared:
        nodes = ", ".join(map(str, ("this node", *known.networks.shared[network])))
        yield f"{network} is where clients of access nodes are: {nodes} may serve them ([access] of meshsec.toml)."
        return
    if network in known.networks.own:
        yield f"{network} is behind this node, which announces it to the mesh."
        return
    named = ", ".join(map(str, known.networks.grants[network]))
    if network in known.networks.selected:
        yield f"{network} is behind {named}, in traffic selectors ([routing] accept): it never moves to another peer."
        yield _use(view)
        return
    yield f"{network} is behind other nodes: {named} may speak for it ([routing] accept, or the card)."
    yield from _announcers(known, network)
    yield from _strangers(known, network)
    yield _use(view)
    if view["limit"]:
        yield f"It is {view['limit']}."
    for one in others:
        yield f"A route to {one} leads past the tunnel: what takes it is dropped."


def _client(known: Situation, asked: Network) -> Iterator[str]:
    """Yield where a client is, if its address was asked for."""
    if known.networks.around(asked) is None or asked in known.networks.grants:
        return
    node = known.networks.clients.get(asked, known.networks.in_use.get(asked))
    if node == known.node.address:
        yield f"The client {asked.network_address} is at this node."
    elif node is not None:
        titles = (channel.title for channel, card in of_present_key(known) if card.address == node)
        yield f"The client {asked.network_address} is at another node: {next(titles, node)} serves it."


def _announcers(known: Situation, network: Network) -> Iterator[str]:
    costs = {one.peer: one for one in candidates(known, network)}
    for channel, card in of_present_key(known):
        if known.networks.may_speak(network, channel.title, card):
            yield _announcer(channel, costs.get(card.address))


def _announcer(channel: Channel, candidate: Candidate | None) -> str:
    if candidate is None:
        return f"{channel.title} does not announce it."
    if candidate.cost >= NO_ROUTE:
        return f"{channel.title} announces it, and no route leads to {channel.title} now."
    state = "carries user data" if candidate.carries else f"is {channel.state}: {channel.reason}"
    return f"{channel.title} announces it and {state}; the way through it weighs {candidate.cost}."


def _strangers(known: Situation, network: Network) -> Iterator[str]:
    allowed = {
        one
        for channel in known.channels()
        if channel.card is not None and known.networks.may_speak(network, channel.title, channel.card)
        for one in originators(channel.card)
    }
    strangers = sorted(str(one) for one in known.networks.announcements.of(network) if one not in allowed)
    if strangers:
        yield f"Announced also by {', '.join(strangers)}, which may not speak for it: this node does not use that."


def _use(view: dict[str, Any]) -> str:
    if view["problem"]:
        return f"It cannot be reached now: {view['problem']}."
    ready = f"; {', '.join(view['ready'])} could take over at once" if view["ready"] else ""
    return f"User data for it goes through {view['peer']}{ready}."


def _of_peer(known: Situation, network: Network, channel: Channel) -> str:
    view = shown_network(known, network)
    if network in known.networks.selected:
        return f"{network} is in its traffic selectors. {_use(view)}"
    if view["peer"] == channel.title:
        return f"{network} is reached through it."
    if channel.title not in view["announced_by"]:
        return f"It may speak for {network} and does not announce it."
    if not carries(known, channel):
        return f"It announces {network} and carries no user data now."
    return f"It announces {network}; that is reached through {view['peer']}."


def _rules(known: Situation, network: Network) -> str:
    if known.rules.met():
        way = "inside its SA" if network in known.networks.selected else "through the tunnel"
        return f"The fail-closed rules are in force: packets from and to it pass {way} alone."
    return "The fail-closed rules are not in force yet: no route to it is set before."
