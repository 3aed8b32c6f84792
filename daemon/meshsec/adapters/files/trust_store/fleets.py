"""The fleets that a node has joined, and what their keys have signed (ADR 0046).

``NAME.fleet`` holds the fleet's card and, in further lines, this node's own card as the fleet has signed it, and that
of its next key. ``NAME.list`` is the newest trust list that came, ``FINGERPRINT.member`` the signed card of a member:
these two come from other nodes, and count by their signature alone.

Of one name the two cards that were signed last are in force: the earlier is the member's present key, the later its
next, until a list revokes the present one or a third card comes (ADR 0041). A member's file has a second line, which
is this node's own: what marks the channel of that key.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from meshsec import files
from meshsec.adapters.files.trust_store import place
from meshsec.adapters.files.trust_store.place import Problem, TrustStoreError, UnsafeError
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet, FleetError, SignedCard, TrustList
from meshsec.core.values.model import Card

FLEET_SUFFIX = ".fleet"
LIST_SUFFIX = ".list"
MEMBER_SUFFIX = ".member"
SUFFIXES = frozenset({FLEET_SUFFIX, LIST_SUFFIX, MEMBER_SUFFIX})

_FLEET_LIMIT = 2048
_MEMBER_LIMIT = 1024
"""Octets of a file."""
_KEYS = 2
"""Of one member."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One fleet that this node has joined."""

    fleet: Fleet
    owns: tuple[SignedCard, ...] = ()
    """This node's own card as the fleet has signed it, and that of another of its keys."""
    list: TrustList | None = None
    damaged: bool = False
    """There is a list that cannot be read: whom it revokes is not known, so none of the members is in force."""

    def of(self, card: Card) -> SignedCard | None:
        """What the fleet has signed for one of this node's keys."""
        return next((one for one in self.owns if one.card.public_key == card.public_key), None)


@dataclass(slots=True)
class Joined:
    """All fleets of a node."""

    memberships: dict[bytes, Membership] = field(default_factory=dict)
    """By the fleet's public key."""
    members: dict[Path, SignedCard] = field(default_factory=dict)
    """Those that can be read, in force or not."""
    marks: dict[Path, str] = field(default_factory=dict)
    """What ends the names of their channels."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def keys(self) -> dict[bytes, Fleet]:
        """Whose signatures count."""
        return {key: membership.fleet for key, membership in self.memberships.items()}

    @property
    def unclear(self) -> bool:
        """There is a fleet or a list that cannot be read, so that not all that is revoked is known."""
        return any(problem.path.suffix in {FLEET_SUFFIX, LIST_SUFFIX} for problem in self.problems)

    def revoked(self) -> dict[str, str]:
        """The keys that the lists revoke, by fingerprint, with what is said about each."""
        return {
            fingerprint.hex(): f"by the fleet {membership.fleet.name}, list {membership.list.number}"
            for membership in self.memberships.values()
            if membership.list
            for fingerprint in membership.list.revoked
        }

    def current(self) -> dict[Path, SignedCard]:
        """Of each fleet's members by name those two that were signed last, whose fleet's list is known or was never."""
        good = {key for key, membership in self.memberships.items() if not membership.damaged}
        named: dict[tuple[bytes, str], list[Path]] = {}
        for path in sorted(self.members, key=lambda path: _order(self.members[path]), reverse=True):
            member = self.members[path]
            if member.fleet in good:
                named.setdefault((member.fleet, member.card.name), []).append(path)
        return {path: self.members[path] for paths in named.values() for path in paths[:_KEYS]}

    def is_own(self, member: SignedCard, own: Card) -> bool:
        """Whether it is a card of this node, by whichever of its keys."""
        owns = {signed.card.public_key for membership in self.memberships.values() for signed in membership.owns}
        return member.card.name == own.name or member.card.public_key in {own.public_key, *owns}

    def late(self, member: SignedCard) -> bool:
        """Its time has ended: the fleet's newest list was signed later. This node's own clock is not asked."""
        listed = self.memberships[member.fleet].list
        return listed is not None and member.over(listed.number)


def _order(member: SignedCard) -> tuple[int, bytes]:
    return member.since, member.card.public_key


_NEVER = (-1, b"")
"""Before any."""


def read(directory: Path) -> Joined:
    """Everything about fleets in the trust store; one bad file hides no other. Raises TrustStoreError."""
    joined = Joined()
    for path in place.listed(directory, FLEET_SUFFIX):
        _collect(joined, path, _read_fleet)
    for path in place.listed(directory, LIST_SUFFIX):
        _collect(joined, path, _read_list)
    for path in place.listed(directory, MEMBER_SUFFIX):
        _collect(joined, path, _read_member)
    return joined


def join(directory: Path, fleet: Fleet, own_text: str, own: Sequence[Card]) -> Membership:
    """Join a fleet, with this node's own card as it has signed it (empty: not yet). Raises TrustStoreError.

    ``own``: the cards of this node's keys. What was signed for another of them stays.
    """
    signed = _own(own_text, fleet, own)
    with place.locked(directory):
        known = read(directory).memberships
        before = known.get(fleet.public_key, Membership(fleet))
        owns = [signed if signed and signed.card.public_key == card.public_key else before.of(card) for card in own]
        membership = Membership(fleet, tuple(filter(None, owns)))
        lines = [fleets.fleet_text(fleet), *map(fleets.card_text, membership.owns)]
        holder = next((one.fleet for one in known.values() if fleet.name == one.fleet.name), fleet)
        if holder.public_key != fleet.public_key:
            raise TrustStoreError(f"there is a fleet {fleet.name!r} with another key: `meshsec fleet leave` leaves it")
        if fleet.public_key in known and known[fleet.public_key].fleet != fleet:
            raise TrustStoreError(f"that key is the fleet {known[fleet.public_key].fleet.name!r}, which is joined")
        if fleet.public_key not in known and len(known) >= fleets.FLEETS_MAX:
            raise TrustStoreError(f"{len(known)} fleets are joined; allowed: {fleets.FLEETS_MAX}")
        place.write(directory / f"{fleet.name}{FLEET_SUFFIX}", "\n".join(lines) + "\n")
    return membership


def leave(directory: Path, name: str) -> None:
    """Trust nothing more that the fleet has signed, and forget it. Raises TrustStoreError."""
    with place.locked(directory):
        joined = read(directory)
        membership = next((one for one in joined.memberships.values() if one.fleet.name == name), None)
        if membership is None:
            known = ", ".join(one.fleet.name for one in joined.memberships.values()) or "none"
            raise TrustStoreError(f"{name!r} is no fleet of this node; joined: {known}")
        members = [path for path, one in joined.members.items() if one.fleet == membership.fleet.public_key]
        listed = directory / f"{name}{LIST_SUFFIX}"
        place.remove(directory / f"{name}{FLEET_SUFFIX}")  # first: an interruption leaves nobody trusted
        for path in (*members, *([listed] if membership.list or membership.damaged else [])):
            place.remove(path)


def take_list(directory: Path, octets: bytes) -> bool:
    """Keep a trust list when it is newer than the one known; whether it was. Raises TrustStoreError."""
    with place.locked(directory):
        joined = read(directory)
        try:
            listed = fleets.read_list(octets, joined.keys)
        except FleetError as error:
            raise TrustStoreError(str(error)) from error
        membership = joined.memberships[listed.fleet]
        if membership.list and listed.number <= membership.list.number:
            return False
        place.write(directory / f"{membership.fleet.name}{LIST_SUFFIX}", fleets.list_text(listed) + "\n")
        for path, member in joined.members.items():
            ended = member.fleet == listed.fleet and member.over(listed.number)
            if ended or member.card.fingerprint in listed.revoked:
                place.remove(path)
    return True


def take_members(directory: Path, octets: Iterable[bytes], own: Card) -> int:
    """Keep signed cards that are new; how many were. One that is not good refuses all. Raises TrustStoreError."""
    with place.locked(directory):
        joined = read(directory)
        try:
            came = [fleets.read_card(one, joined.keys) for one in octets]
        except FleetError as error:
            raise TrustStoreError(str(error)) from error
        revoked = _all_revoked(directory, joined)
        return sum(_take(directory, joined, member, own, revoked) for member in came)


def _take(directory: Path, joined: Joined, member: SignedCard, own: Card, revoked: Mapping[str, str]) -> bool:
    fingerprint = member.card.fingerprint.hex()
    if joined.is_own(member, own) or fingerprint in revoked or joined.late(member):
        return False
    path = directory / f"{fingerprint}{MEMBER_SUFFIX}"
    known = joined.members.get(path)
    others = [
        other
        for other in sorted(joined.members, key=lambda other: _order(joined.members[other]))
        if other != path
        and joined.members[other].fleet == member.fleet
        and joined.members[other].card.name == member.card.name
    ]
    earliest = _order(joined.members[others[0]]) if len(others) >= _KEYS else _NEVER
    if _order(member) <= max(earliest, _order(known) if known else _NEVER):
        return False
    gone, kept = (others[: 1 - _KEYS], others[1 - _KEYS :]) if len(others) >= _KEYS else ([], others)
    if len(joined.members) - len(gone) + (known is None) > fleets.MEMBERS_MAX:
        raise TrustStoreError(f"{len(joined.members)} members are known; allowed: {fleets.MEMBERS_MAX}")
    beside = next((joined.marks.get(other, "") for other in kept), place.NEXT)
    mark = joined.marks.get(path, "") if known else "" if beside else place.NEXT
    place.write(path, fleets.card_text(member) + (f"{place.MARK}{mark}" if mark else "") + "\n")
    for other in gone:
        del joined.members[other]
        place.remove(other)
    joined.members[path], joined.marks[path] = member, mark
    return True


def _all_revoked(directory: Path, joined: Joined) -> dict[str, str]:
    return joined.revoked() | {path.stem: "" for path in place.listed(directory, place.REVOKED_SUFFIX)}


def _own(text: str, fleet: Fleet, own: Sequence[Card]) -> SignedCard | None:
    if not text:
        return None
    try:
        signed = fleets.parse_card(text, {fleet.public_key: fleet})
    except FleetError as error:
        raise TrustStoreError(str(error)) from error
    if signed.card.public_key not in {card.public_key for card in own}:
        raise TrustStoreError(f"the signed card is that of {signed.card.name!r}, with another key than this node's")
    return signed


def _collect(joined: Joined, path: Path, reader: Callable[[Joined, Path], None]) -> None:
    try:
        reader(joined, path)
    except (files.FileError, FleetError, UnsafeError, FileNotFoundError) as error:
        joined.problems.append(Problem(path, str(error).removeprefix(f"{path}: ")))


def _read_fleet(joined: Joined, path: Path) -> None:
    first, *further = place.read(path, _FLEET_LIMIT).split("\n")
    fleet = fleets.parse_fleet(first)
    if path.stem != fleet.name or fleet.public_key in joined.memberships:
        raise UnsafeError(f"it is the card of the fleet {fleet.name!r}, which belongs into {fleet.name}{FLEET_SUFFIX}")
    joined.memberships[fleet.public_key] = Membership(fleet)
    owns = tuple(fleets.parse_card(line, {fleet.public_key: fleet}) for line in further if line.strip())
    joined.memberships[fleet.public_key] = Membership(fleet, owns)


def _read_list(joined: Joined, path: Path) -> None:
    membership = next((one for one in joined.memberships.values() if one.fleet.name == path.stem), None)
    if membership is None:
        raise FleetError(f"there is no fleet {path.stem!r} that it could be of: remove it")
    key, damaged = membership.fleet.public_key, Membership(membership.fleet, membership.owns, damaged=True)
    joined.memberships[key] = damaged
    listed = fleets.parse_list(files.read(path, fleets.TEXT_MAX + 2), {key: membership.fleet})
    joined.memberships[key] = Membership(membership.fleet, membership.owns, listed)


def _read_member(joined: Joined, path: Path) -> None:
    if len(joined.members) >= fleets.MEMBERS_MAX:
        raise UnsafeError(f"there are more members than {fleets.MEMBERS_MAX}")
    text, _, mark = files.read(path, _MEMBER_LIMIT).partition(place.MARK)
    joined.members[path] = fleets.parse_card(text, joined.keys)
    joined.marks[path] = place.NEXT if mark.strip() == place.NEXT else ""
