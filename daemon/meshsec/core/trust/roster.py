"""The roster: whose card is in force on this node, and why another's is not.

The rules, in their order:

1. A revoked key is nobody's, whoever adds its card, under whatever name and whenever (ADR 0046).
2. A next key is in force beside the present one, and not without it (ADR 0041).
3. Of two added cards that claim one key or one address neither is in force, because nobody can know which is meant.
   A card that claims this node's own is not in force.
4. A member of a fleet comes after the cards that were added here, and after members that were signed before. It is not
   in force when its name or its address is taken, or when its time has ended.
5. A card that can no longer be read does not take its peer's trust away: the last good one stays in force, unless its
   key is revoked.

Names of peers are titles: ``NAME``, and ``NAME~`` for the next key of ``NAME``. Whether the IPv4 address on a card is
believed is decided where the node's surroundings are known (core/channels/ipv4_claims.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from meshsec.core.trust.fleets import SignedCard
from meshsec.core.trust.membership import Joined
from meshsec.core.trust.revocation_notes import date
from meshsec.core.values.model import PEER_NEXT, Card, Peer


class RefusedError(ValueError):
    """A card that is not added. The message says why."""


@dataclass(frozen=True, slots=True)
class Held:
    """A card that was added on this node."""

    card: Card
    mark: str = ""
    """End of the name of its key's channel."""


@dataclass(frozen=True, slots=True)
class Revocations:
    """The revoked keys by fingerprint in hexadecimal digits, with what is said about each."""

    here: Mapping[str, str] = field(default_factory=dict)
    """Those that were revoked on this node."""
    lists: Mapping[str, str] = field(default_factory=dict)
    """Those on the lists of its fleets."""

    def all(self) -> dict[str, str]:
        """Return both. What was said on this node counts first."""
        return {**self.lists, **self.here}

    def refusal(self, card: Card) -> str:
        """Return why a card cannot be in force; empty when its key is not revoked."""
        fingerprint = card.fingerprint.hex()
        if fingerprint not in self.here and fingerprint not in self.lists:
            return ""
        said = self.here.get(fingerprint, self.lists.get(fingerprint, ""))
        back = f": only `meshsec peer unrevoke {fingerprint}` takes that back" if fingerprint in self.here else ""
        return f"its key is revoked{f' ({said})' if said else ''}{back}"


@dataclass(frozen=True, slots=True)
class Roster:
    """The cards in force, and why others are not."""

    own: Card
    """This node's card."""
    revocations: Revocations = field(default_factory=Revocations)
    peers: dict[str, Peer] = field(default_factory=dict)
    """Peers in force, by title."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why an added card is not in force, by title."""
    refused_members: dict[str, str] = field(default_factory=dict)
    """Why a member's card is not in force, by the name of its file."""

    def by_hand(self) -> dict[str, Peer]:
        """Return the peers whose card was added on this node."""
        return {title: peer for title, peer in self.peers.items() if not peer.fleet}


def decide(
    held: Mapping[str, Held], present: Collection[str], revocations: Revocations, joined: Joined, own: Card
) -> Roster:
    """Return the roster. ``held``: the added cards by title.

    ``present``: the names whose card is there, whether it can be read or not.
    """
    peers: dict[str, Peer] = {}
    refused: dict[str, str] = {}
    for title, one in held.items():
        why = _alone(title, present) or revocations.refusal(one.card)
        if why:
            refused[title] = why
        else:
            peers[title] = _peer(title, one)
    conflicts = _conflicts(peers, own)
    good = {title: peer for title, peer in peers.items() if title not in conflicts}
    members, refused_members = _members(good, joined, revocations.all(), own)
    return Roster(own, revocations, good | members, refused | conflicts, refused_members)


def added(roster: Roster, name: str, card: Card, occupied: str = "") -> Peer:
    """Return the peer that ``card`` makes of ``name``. The same card again changes nothing. Raises RefusedError.

    Another card with the key of the peer of that name takes the place of the one that is there. ``occupied``: the file
    of that name, where there is one.
    """
    known = roster.by_hand().get(name)
    if known and known.card == card:
        return known
    _refuse(f"{name!r} is not added", roster.revocations.refusal(card))
    if occupied and not (known and known.card.public_key == card.public_key):
        raise RefusedError(f"{occupied}: there is a peer {name!r} with another card; remove it first")
    peer = replace(known, card=card) if known else Peer(name, card)
    _refuse(f"{name!r} is not added", _conflict(roster, peer))
    return peer


def namesakes(peers: Iterable[Peer], name: str, card: Card) -> tuple[str, ...]:
    """Return the other peers that have the name on the card of ``name``, as theirs or on their cards.

    A stranger may give his node the name of a known one.
    """
    others = ((peer.name.removesuffix(PEER_NEXT), peer.card.name) for peer in peers)
    return tuple(dict.fromkeys(other for other, said in others if other != name and card.name in {other, said}))


def added_next(roster: Roster, name: str, card: Card) -> Peer:
    """Return the peer that ``card`` makes of the next key of ``name``, who has one. Raises RefusedError.

    Another card with that next key takes the place of the one that is there. The same card again changes nothing.
    """
    title, peers = name + PEER_NEXT, roster.by_hand()
    present, following = peers[name], peers.get(title)
    for known in filter(None, (present, following)):
        if known.card == card:
            return known
    if following and following.card.public_key != card.public_key:
        raise RefusedError(f"{name!r} has a next key already: `meshsec peer end {name}` ends the present one")
    _refuse(f"{title!r} is not added", roster.revocations.refusal(card))
    peer = _peer(title, Held(card, "" if present.key.endswith(PEER_NEXT) else PEER_NEXT))
    _refuse(f"the next key of {name!r} is not added", _conflict(roster, peer))
    return peer


def kept(before: Mapping[str, Peer], refused: Iterable[str], revoked: Collection[str]) -> dict[str, Peer]:
    """Return the peers of ``before`` that stay in force although their cards are refused now."""
    titles = set(refused)
    return {title: peer for title, peer in trusted(before, revoked).items() if title in titles}


def trusted(peers: Mapping[str, Peer], revoked: Collection[str]) -> dict[str, Peer]:
    """Return the peers whose key is not revoked."""
    return {title: peer for title, peer in peers.items() if peer.card.fingerprint.hex() not in revoked}


def _refuse(what: str, why: str) -> None:
    if why:
        raise RefusedError(f"{what}: {why}")


def _conflict(roster: Roster, peer: Peer) -> str:
    return _conflicts({**roster.by_hand(), peer.name: peer}, roster.own).get(peer.name, "")


def _alone(title: str, present: Collection[str]) -> str:
    if title.endswith(PEER_NEXT) and title.removesuffix(PEER_NEXT) not in present:
        return "there is no card whose place it is to take: remove it, or add the peer"
    return ""


def _peer(title: str, held: Held) -> Peer:
    channel = title.removesuffix(PEER_NEXT) + held.mark
    return Peer(title, held.card, "" if channel == title else channel)


def _conflicts(peers: Mapping[str, Peer], own: Card) -> dict[str, str]:
    """Return why a peer cannot be in force beside the others, by title."""
    found: dict[str, str] = {}
    holders: dict[object, str] = {own.public_key: "", own.address: ""}
    for title, peer in sorted(peers.items()):
        for claim, kind in _claims(peer.card):
            holder = holders.setdefault(claim, title)
            if holder == title:
                continue
            noun = _noun(claim, kind)
            if holder:
                found.setdefault(title, f"its {noun} is also that of peer {holder!r}")
                found.setdefault(holder, f"its {noun} is also that of peer {title!r}")
            else:
                found.setdefault(title, f"its {noun} is this node's own")
    return found


def _claims(card: Card) -> Iterator[tuple[object, str]]:
    yield card.public_key, "public key"
    yield card.address, "address"


def _noun(claim: object, kind: str) -> str:
    return f"{kind} {claim}" if kind == "address" else kind


def _members(
    added_here: Mapping[str, Peer], joined: Joined, revoked: Collection[str], own: Card
) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the members in force beside the added cards, by title, and why others are not, by file."""
    peers: dict[str, Peer] = {}
    refused: dict[str, str] = {}
    keys = {peer.card.public_key for peer in added_here.values()}
    taken = {claim for card in (own, *(peer.card for peer in added_here.values())) for claim, _ in _claims(card)}
    good = {file: one for file, one in joined.current().items() if one.card.fingerprint.hex() not in revoked}
    for file, member in sorted(good.items(), key=lambda entry: (entry[1].since, entry[0])):
        if member.card.public_key in keys or joined.is_own(member, own):
            continue
        fleet = joined.memberships[member.fleet].fleet.name
        present = peers.get(member.card.name)
        obstacle = _obstacle(member, fleet, joined, taken, present or added_here.get(member.card.name))
        if obstacle:
            refused[file] = f"{member.card.name!r} of the fleet {fleet!r} is not in force: {obstacle}"
            continue
        peer = _member(member.card, fleet, joined.marks.get(file, ""), present)
        peers[peer.name] = peer
        taken.update(claim for claim, _ in _claims(member.card))
    return peers, refused


def _obstacle(member: SignedCard, fleet: str, joined: Joined, taken: Collection[object], namesake: Peer | None) -> str:
    """Return what keeps a member's card from being in force. ``namesake``: the peer that has its name."""
    if joined.late(member):
        return f"its time has ended: the fleet {fleet!r} signed it until {date(member.until)}"
    if namesake and namesake.fleet != fleet:
        return f"there is another peer of its name, {member.card.name!r}"
    claims = ((claim, kind) for claim, kind in _claims(member.card) if claim in taken)
    return next((f"its {_noun(claim, kind)} is another's" for claim, kind in claims), "")


def _member(card: Card, fleet: str, mark: str, present: Peer | None) -> Peer:
    """Return a member as a peer. Of the two keys of one the channels differ, whatever their files say."""
    title = card.name + PEER_NEXT if present else card.name
    if present and present.key == card.name + mark:
        mark = "" if mark else PEER_NEXT
    channel = card.name + mark
    return Peer(title, card, "" if channel == title else channel, fleet=fleet)
