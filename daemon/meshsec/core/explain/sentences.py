"""Why a channel is as it is, in plain sentences: the text of ``meshsec explain``."""

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import authentication, endpoint
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.lifecycle import State
from meshsec.core.channels.overlay import KEEP_MAX
from meshsec.core.explain import levels_view, network_sentences
from meshsec.core.explain.channel_status import shown
from meshsec.core.values.model import OWN_NEXT, PEER_NEXT, Authentication, Card, DataPlane, EspBackend

CLOSED_BY_DOUBT = "unknown nodes are closed, although the policy allows them, until every card is good"
"""What follows from a refused card where the policy is open: its peer must not pass for an unknown node."""


QUIET = (
    "The peer's IKE daemon does not answer either: it has lost the SA, or somebody on the way takes what is sent to it."
)
QUIET_ANSWERS = (
    "The peer's IKE daemon answers: either the user data has one direction, or somebody on the way drops ESP alone."
)
"""What it means that user data goes out and nothing comes in."""


def sentences(engine: Engine, channel: Channel, card: Card, now: float) -> list[str]:
    """Return the sentences from trust to what happens next. ``card`` is the peer's."""
    seen = shown(engine, channel)
    return [
        _explain_trust(channel, card),
        _explain_authentication(engine, channel, card),
        _explain_route(engine, channel, card),
        *_explain_mode(engine, channel, card),
        _explain_turn(engine, channel),
        *_explain_suite(engine),
        *levels_view.sentences(engine.known, channel, now),
        *_explain_attempts(channel, now),
        _explain_sa(channel, now),
        *_explain_quiet(channel, now),
        *network_sentences.of_peer(engine.known, channel),
        _explain_rules(engine, channel),
        *_explain_doubt(engine),
        f"The channel has been {seen.state} for {_span(now - seen.since)}: {seen.reason}.",
        _explain_next(engine, channel, now),
    ]


def _explain_trust(channel: Channel, card: Card) -> str:
    text = f"{channel.title} is trusted: its card gives the address {card.address}."
    if channel.ipv4_doubt:
        text += f" Its IPv4 address is not believed, so that IPv6 alone is protected and used: {channel.ipv4_doubt}."
    if channel.fleet:
        text += f" The fleet {channel.fleet} has signed it."
    if PEER_NEXT in channel.title:
        text += " That is the peer's next key: the present one is in force, too, until `meshsec peer end`."
    if OWN_NEXT in channel.title:
        text += " This channel is of this node's next key: the present one stays in force until `meshsec key end`."
    return text


def _explain_authentication(engine: Engine, channel: Channel, card: Card) -> str:
    node = channel.own or engine.known.node
    if authentication(node, card) is Authentication.SIGNATURE:
        return "Each end authenticates by its key."
    whose = "the peer's" if card.by_secret else "this node's"
    whose = "both IKE daemons" if card.by_secret and node.by_secret else f"{whose} IKE daemon"
    return f"The ends authenticate by a secret that each computes from both keys, because of {whose} (no Ed25519)."


def _explain_route(engine: Engine, channel: Channel, card: Card) -> str:
    target = endpoint(card, engine.known.backend)
    frozen = f" The routing daemon is away ({engine.known.router_down}): what was known stays in force."
    note = frozen if engine.known.router_down is not None else ""
    route = channel.route
    if route is None:
        return f"There is no route to {target}.{note}"
    hops = "1 hop" if route.hops == 1 else f"{route.hops} hops"
    return f"There is a route to {target}: {hops}, next hop {route.next_hop} on {route.interface}.{note}"


def _explain_turn(engine: Engine, channel: Channel) -> str:
    if channel.initiator:
        return "This node initiates, because its fingerprint is the lower of the two."
    delay = (
        engine.known.policy.takeover_delay_fresh
        if channel.attempt.daemon_restarted
        else engine.known.policy.takeover_delay
    )
    return (
        "The peer initiates, because its fingerprint is the lower of the two; "
        f"this node takes over when nothing is established after {_span(delay)}."
    )


def _explain_mode(engine: Engine, channel: Channel, card: Card) -> list[str]:
    overlay = engine.known.overlay
    if not overlay.enabled:
        return []
    whose = "for this peer" if card.address in overlay.modes.peers else "as for every peer without one of its own"
    sentences = [f"The mode is {channel.handover.mode}, {whose}."]
    if overlay.down is not None:
        sentences.append(f"The overlay's node is away: {overlay.down}.")
    elif card.address in overlay.linked:
        sentences.append("The overlay has a session with the peer.")
    elif overlay.leaves_out(card.address):
        sentences.append(f"Sessions are kept to {KEEP_MAX} others; those to whom a route leads come first.")
    if channel.handover.mode is DataPlane.OVERLAY:
        sentences.append("This node answers IKE and begins no negotiation in this mode; the overlay carries no IPv4.")
    return sentences


def _explain_suite(engine: Engine) -> list[str]:
    suites, floor = engine.known.suites, engine.known.policy.floor
    if suites.chosen is None:
        return []
    return [f"This node proposes the suite {suites.chosen.name} first, never one below {floor}: {suites.why}."]


def _explain_attempts(channel: Channel, now: float) -> list[str]:
    sentences = []
    if channel.attempt.began_at is not None:
        times = "once" if channel.attempt.count == 1 else f"{channel.attempt.count} times"
        sentences.append(f"This node has initiated {times}, last {_span(now - channel.attempt.began_at)} ago.")
    failure = channel.attempt.last_failure
    if failure is not None:
        meaning = failure.diagnosis.meaning
        sentences.append(
            f"The last failure, {_span(now - failure.at)} ago: {failure.cause.words}. It means: {meaning}."
        )
    return sentences


def _explain_sa(channel: Channel, now: float) -> str:
    sa = channel.ike_sa()
    if sa is None:
        return "There is no IKE_SA."
    by = "this node" if sa.initiator else "the peer"
    age = "" if sa.established_at is None else f", {_span(now - sa.established_at)} old"
    children = ", ".join(f"{child.name} ({child.mode}, {child.state})" for child in sa.children) or "none"
    return f"An IKE_SA initiated by {by} is established{age}; CHILD_SAs: {children}."


def _explain_quiet(channel: Channel, now: float) -> list[str]:
    if channel.quiet is None:
        return []
    found = f"User data goes out through it, and nothing has come in for {_span(now - channel.quiet.since)}."
    if channel.quiet.answers:
        return [f"{found} {QUIET_ANSWERS}"]
    return [f"{found} {QUIET}"]


def _explain_rules(engine: Engine, channel: Channel) -> str:
    if engine.known.rules.covers(channel.card):
        where = "in the kernel" if engine.known.backend is EspBackend.KERNEL else "by ipsec0"
        where += f", or by {engine.known.overlay.device}" if engine.known.overlay.enabled else ""
        return f"The fail-closed rules are in force: user data to the peer leaves only encrypted, {where}."
    return "The fail-closed rules for the peer are not in force yet: nothing is negotiated before."


def _explain_doubt(engine: Engine) -> list[str]:
    return (
        [f"The trust store has a card that is refused: {CLOSED_BY_DOUBT}."]
        if engine.known.rules.closed_by_doubt
        else []
    )


def _explain_next(engine: Engine, channel: Channel, now: float) -> str:
    for planned in engine.plan(now):
        label = planned.action.label
        if label.peer == channel.name:
            when = "" if planned.at is None else f" in {_span(planned.at - now)}"
            return f"Next{when}: {label.name} ({planned.why})."
    if channel.handover.mode is DataPlane.OVERLAY and channel.handover.carried_since is None:
        return "Next: the route into the overlay when the session is established."
    if channel.state is State.HELD and channel.hold.until is not None:
        if engine.known.router_down is not None:
            return "Next: the SA is kept until the routing daemon is back."
        return f"Next: the SA is closed in {_span(channel.hold.until - now)} unless a route appears."
    if channel.state is State.NO_ROUTE and channel.handover.mode is DataPlane.IPSEC:
        return "Next: a negotiation when a route to the peer appears."
    return "Nothing is left to do."


def _span(seconds: float) -> str:
    """Return a duration for people, in two significant figures."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
