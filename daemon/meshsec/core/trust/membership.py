"""The fleets that a node has joined, and which of their members' cards count (ADR 0046).

Of one name the two cards that were signed last count: the earlier is the member's present key, the later its next,
until a list revokes the present one or a third card comes (ADR 0041).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet, FleetError, SignedCard, TrustList
from meshsec.core.trust.revocation_notes import Notes, date
from meshsec.core.values.model import PEER_NEXT, Card

KEYS = 2
"""Cards of one member that count: that of its present key and that of its next."""
_NEVER = (-1, b"")
"""An order before that of any card."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One fleet that this node has joined."""

    fleet: Fleet
    owns: tuple[SignedCard, ...] = ()
    """This node's own card as the fleet has signed it, and that of another of its keys."""
    list: TrustList | None = None
    notes: Notes | None = None
    """What the fleet's operator said of the revoked keys."""
    damaged: bool = False
    """There is a list that cannot be read: whom it revokes is not known, so none of the members is in force."""

    def of(self, card: Card) -> SignedCard | None:
        """Return what the fleet has signed for one of this node's keys."""
        return next((one for one in self.owns if one.card.public_key == card.public_key), None)

    def said(self, fingerprint: bytes) -> str:
        """Return who has revoked a key, when, and what was said of it."""
        note = self.notes.said.get(fingerprint) if self.notes else None
        if note is not None:
            return f"by the fleet {self.fleet.name}, {date(note.at)}: {note}".removesuffix(": ")
        return f"by the fleet {self.fleet.name}, list of {date(self.list.number)}" if self.list else ""


@dataclass(slots=True)
class Joined:
    """All fleets of a node. Members are known by the names of their files."""

    memberships: dict[bytes, Membership] = field(default_factory=dict)
    """Memberships by the fleet's public key."""
    members: dict[str, SignedCard] = field(default_factory=dict)
    """Those that can be read, in force or not."""
    marks: dict[str, str] = field(default_factory=dict)
    """Ends of the names of the members' channels."""
    refused: dict[str, str] = field(default_factory=dict)
    """Files that say nothing to be relied on, and why."""
    sought: bytes = b""
    """What six words say of the key of a fleet that this node looks for (``fingerprint_words``); empty: none."""
    unclear: bool = False
    """A fleet or a list cannot be read, so that not all that is revoked is known."""

    @property
    def keys(self) -> dict[bytes, Fleet]:
        """The fleets whose signatures count, by public key."""
        return {key: membership.fleet for key, membership in self.memberships.items()}

    @property
    def talks(self) -> bool:
        """Whether this node talks with nodes that it does not trust: to join a fleet, or as its member (ADR 0070)."""
        return bool(self.memberships or self.sought)

    def revoked(self) -> dict[str, str]:
        """Return the keys that the lists revoke, by fingerprint, with what is said about each."""
        return {
            fingerprint.hex(): membership.said(fingerprint)
            for membership in self.memberships.values()
            if membership.list
            for fingerprint in membership.list.revoked
        }

    def current(self) -> dict[str, SignedCard]:
        """Return, of each name in a fleet, the cards that count. A fleet whose list is damaged has none."""
        good = {key for key, membership in self.memberships.items() if not membership.damaged}
        named: dict[tuple[bytes, str], list[str]] = {}
        for file in sorted(self.members, key=lambda file: _order(self.members[file]), reverse=True):
            member = self.members[file]
            if member.fleet in good:
                named.setdefault((member.fleet, member.card.name), []).append(file)
        return {file: self.members[file] for files in named.values() for file in files[:KEYS]}

    def is_own(self, member: SignedCard, own: Card) -> bool:
        """Return whether a signed card is one of this node, by whichever of its keys."""
        owns = {signed.card.public_key for membership in self.memberships.values() for signed in membership.owns}
        return member.card.name == own.name or member.card.public_key in {own.public_key, *owns}

    def late(self, member: SignedCard) -> bool:
        """Return whether the fleet's newest list was signed after the card's end. This node's clock is not asked."""
        listed = self.memberships[member.fleet].list
        return listed is not None and member.over(listed.number)


class Place(NamedTuple):
    """Where a signed card that is new goes."""

    mark: str
    """End of the name of its channel."""
    gone: tuple[str, ...]
    """Files of the cards that it ends."""


def placed(joined: Joined, file: str, member: SignedCard, own: Card, revoked: Mapping[str, str]) -> Place | None:
    """Return the place of a signed card that would be in ``file``; None when it says nothing new.

    Raises FleetError when there are too many members.
    """
    if joined.is_own(member, own) or member.card.fingerprint.hex() in revoked or joined.late(member):
        return None
    known = joined.members.get(file)
    others = _others(joined, file, member)
    earliest = _order(joined.members[others[0]]) if len(others) >= KEYS else _NEVER
    if _order(member) <= max(earliest, _order(known) if known else _NEVER):
        return None
    gone, kept = others[: 1 - KEYS], others[1 - KEYS :]
    if len(joined.members) - len(gone) + (known is None) > fleets.MEMBERS_MAX:
        raise FleetError(f"{len(joined.members)} members are known; allowed: {fleets.MEMBERS_MAX}")
    beside = next((joined.marks.get(other, "") for other in kept), PEER_NEXT)
    mark = joined.marks.get(file, "") if known else "" if beside else PEER_NEXT
    return Place(mark, tuple(gone))


def _others(joined: Joined, file: str, member: SignedCard) -> list[str]:
    """Return the other cards of a member's name in its fleet, the one that was signed first at the front."""
    return [
        other
        for other, one in sorted(joined.members.items(), key=lambda entry: _order(entry[1]))
        if other != file and one.fleet == member.fleet and one.card.name == member.card.name
    ]


def _order(member: SignedCard) -> tuple[int, bytes]:
    return member.since, member.card.public_key
