"""What people and programs are shown of networks: through whom each is reached, and what is wrong with it."""

from collections.abc import Iterator
from typing import Any

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.network_events import carries, of_present_key, selected
from meshsec.core.channels.situation import Situation
from meshsec.core.networks.networks import originators
from meshsec.core.values.model import EspBackend, Network
from meshsec.core.values.networks import Announcement, Carriage


def networks(known: Situation) -> list[dict[str, Any]]:
    """Return the protected networks of peers, each with the peer in use, those that are ready beside it,
    who announces it, and what is wrong with it."""
    return [shown_network(known, network) for network in known.networks.grants]


def problems(known: Situation) -> Iterator[str]:
    """Yield a sentence for each network that cannot be reached protected, or does not count on a peer's card."""
    yield from (f"{one['network']}: {one['problem']}" for one in networks(known) if one["problem"])
    yield from (
        f"{network} on the card of {peer} does not count: {why}"
        for (peer, network), why in known.networks.refused.items()
    )


def limits(known: Situation) -> str:
    """Return which networks of peers not everything here can use, and why; empty: everything can use all."""
    found = {one: why for one in known.networks.tunnelled if (why := _limit(known, one))}
    return f"{', '.join(map(str, found))}: {next(iter(found.values()))}" if found else ""


def unheeded(known: Situation) -> list[str]:
    """Return the networks that peers announce and may not speak for, each with who announces it."""
    return sorted(
        {
            f"{one.network} from {channel.title}"
            for channel in known.channels()
            for one in foreign_announcements(known, channel)
        }
    )


def foreign_announcements(known: Situation, channel: Channel) -> list[Announcement]:
    """Return the networks that a peer announces and may not speak for; single addresses are left out."""
    card = channel.card
    if card is None:
        return []
    own = originators(card)
    found = (
        one
        for one in known.networks.announcements
        if one.originator in own
        and one.network.prefixlen < one.network.max_prefixlen
        and not known.networks.may_speak(one.network, channel.title, card)
    )
    return sorted(found, key=lambda one: (one.network.version, one.network))


def shown_network(known: Situation, network: Network) -> dict[str, Any]:
    """Return what is shown of one network for which peers may speak."""
    if network in known.networks.selected:
        return _selected(known, network)
    announcing = _announcing(known, network)
    used = known.networks.in_use.get(network)
    through = next((one for one in announcing if one.card is not None and one.card.address == used), None)
    ready = [one.title for one in announcing if one is not through and carries(known, one)]
    return {
        "network": str(network),
        "by": str(Carriage.TUNNEL),
        "peer": through.title if through is not None else None,
        "ready": list(dict.fromkeys(ready)),
        "announced_by": list(dict.fromkeys(one.title for one in announcing)),
        "problem": _problem(known, network, announcing, through),
        "limit": _limit(known, network),
    }


def _selected(known: Situation, network: Network) -> dict[str, Any]:
    """Return the same of a network in traffic selectors, which nobody has to announce."""
    channel = next((one for one, _ in selected(known, network)), None)
    return {
        "network": str(network),
        "by": str(Carriage.SELECTORS),
        "peer": channel.title if channel is not None else None,
        "ready": [],
        "announced_by": [],
        "problem": _problem_of_selected(known, network, channel),
        "limit": "",
    }


def _limit(known: Situation, network: Network) -> str:
    """Return who alone can use a network. This node's own packets need an address of its IP version (``tunnel``)."""
    if network.version == 6 or known.node.ipv4 is not None:
        return ""
    if any(one.version == 4 for one in known.networks.own):
        return "for what is behind this node, which has no IPv4 address in the mesh"
    return "of no use here: this node has no IPv4 address in the mesh, and no IPv4 network is behind it"


def _problem_of_selected(known: Situation, network: Network, channel: Channel | None) -> str:
    if known.backend is not EspBackend.KERNEL:
        return "ESP runs in user space, where no network is in traffic selectors; user data for it is dropped"
    if channel is None:
        named = ", ".join(map(str, known.networks.grants[network]))
        return f"{named}, who may speak for it, is not trusted; user data for it is dropped"
    if network not in known.networks.in_use:
        return "its route is not installed yet"
    if channel.established().complete and not channel.hold.over:
        return ""
    if carries(known, channel):
        return f"the overlay carries user data with {channel.title}, and has no traffic selectors; it is dropped"
    return f"{channel.title} is {channel.state}; user data for it is dropped"


def _announcing(known: Situation, network: Network) -> list[Channel]:
    announcers = known.networks.announcements.of(network)
    return [
        channel
        for channel, card in of_present_key(known)
        if known.networks.may_speak(network, channel.title, card)
        and any(one in announcers for one in originators(card))
    ]


def _problem(known: Situation, network: Network, announcing: list[Channel], through: Channel | None) -> str:
    if not announcing:
        named = ", ".join(map(str, known.networks.grants[network]))
        return f"nobody who may speak for it announces it ({named}); user data for it is dropped"
    if through is None:
        return "its route is not installed yet"
    if not carries(known, through):
        return f"{through.title} is {through.state}; user data for it is dropped"
    return ""
