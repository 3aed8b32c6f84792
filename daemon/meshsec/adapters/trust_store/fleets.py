"""The fleets that a node has joined, and what their keys have signed (ADR 0046).

``NAME.fleet`` holds the fleet's card and, in a second line, this node's own card as the fleet has signed it.
``NAME.list`` is the newest trust list that came, ``FINGERPRINT.member`` the signed card of a member: these two come
from other nodes, and count by their signature alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meshsec import files
from meshsec.adapters.trust_store import place
from meshsec.adapters.trust_store.place import Problem, TrustStoreError, UnsafeError
from meshsec.core import fleet as fleets
from meshsec.core.fleet import Fleet, FleetError, SignedCard, TrustList
from meshsec.core.model import Card

FLEET_SUFFIX = ".fleet"
LIST_SUFFIX = ".list"
MEMBER_SUFFIX = ".member"
SUFFIXES = frozenset({FLEET_SUFFIX, LIST_SUFFIX, MEMBER_SUFFIX})

_FLEET_LIMIT = 2048
_MEMBER_LIMIT = 1024
"""Octets of a file."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One fleet that this node has joined."""

    fleet: Fleet
    own: SignedCard | None = None
    """This node's own card, as the fleet has signed it."""
    list: TrustList | None = None
    damaged: bool = False
    """There is a list that cannot be read: whom it revokes is not known, so none of the members is in force."""


@dataclass(slots=True)
class Joined:
    """All fleets of a node."""

    memberships: dict[bytes, Membership] = field(default_factory=dict)
    """By the fleet's public key."""
    members: dict[Path, SignedCard] = field(default_factory=dict)
    """Those that can be read, in force or not."""
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
        """Of each fleet's members by name the one that was signed last, whose fleet's list is known or was never."""
        newest: dict[tuple[bytes, str], tuple[Path, SignedCard]] = {}
        for path, member in self.members.items():
            key = (member.fleet, member.card.name)
            if key not in newest or _order(member) > _order(newest[key][1]):
                newest[key] = (path, member)
        good = {key for key, membership in self.memberships.items() if not membership.damaged}
        return {path: member for path, member in newest.values() if member.fleet in good}

    def late(self, member: SignedCard) -> bool:
        """Its time has ended: the fleet's newest list was signed later. This node's own clock is not asked."""
        listed = self.memberships[member.fleet].list
        return listed is not None and member.over(listed.number)


def _order(member: SignedCard) -> tuple[int, bytes]:
    return member.since, member.card.public_key


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


def join(directory: Path, fleet: Fleet, own_text: str, own: Card) -> Membership:
    """Join a fleet, with this node's own card as it has signed it (empty: not yet). Raises TrustStoreError."""
    membership = Membership(fleet, _own(own_text, fleet, own))
    lines = [fleets.fleet_text(fleet), *([fleets.card_text(membership.own)] if membership.own else [])]
    with place.locked(directory):
        known = read(directory).memberships
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
    if member.card.public_key == own.public_key or fingerprint in revoked or joined.late(member):
        return False
    path = directory / f"{fingerprint}{MEMBER_SUFFIX}"
    same = {
        known: one
        for known, one in joined.members.items()
        if known == path or (one.fleet, one.card.name) == (member.fleet, member.card.name)
    }
    if any(_order(one) >= _order(member) for one in same.values()):
        return False
    if len(joined.members) - len(same) >= fleets.MEMBERS_MAX:
        raise TrustStoreError(f"{len(joined.members)} members are known; allowed: {fleets.MEMBERS_MAX}")
    place.write(path, fleets.card_text(member) + "\n")
    for known in same:
        joined.members.pop(known)
        if known != path:
            place.remove(known)
    joined.members[path] = member
    return True


def _all_revoked(directory: Path, joined: Joined) -> dict[str, str]:
    return joined.revoked() | {path.stem: "" for path in place.listed(directory, place.REVOKED_SUFFIX)}


def _own(text: str, fleet: Fleet, own: Card) -> SignedCard | None:
    if not text:
        return None
    try:
        signed = fleets.parse_card(text, {fleet.public_key: fleet})
    except FleetError as error:
        raise TrustStoreError(str(error)) from error
    if signed.card.public_key != own.public_key:
        raise TrustStoreError(f"the signed card is that of {signed.card.name!r}, with another key than this node's")
    return signed


def _collect(joined: Joined, path: Path, reader: Callable[[Joined, Path], None]) -> None:
    try:
        reader(joined, path)
    except (files.FileError, FleetError, UnsafeError, FileNotFoundError) as error:
        joined.problems.append(Problem(path, str(error).removeprefix(f"{path}: ")))


def _read_fleet(joined: Joined, path: Path) -> None:
    first, _, second = place.read(path, _FLEET_LIMIT).partition("\n")
    fleet = fleets.parse_fleet(first)
    if path.stem != fleet.name or fleet.public_key in joined.memberships:
        raise UnsafeError(f"it is the card of the fleet {fleet.name!r}, which belongs into {fleet.name}{FLEET_SUFFIX}")
    joined.memberships[fleet.public_key] = Membership(fleet)
    if second.strip():
        own = fleets.parse_card(second, {fleet.public_key: fleet})
        joined.memberships[fleet.public_key] = Membership(fleet, own)


def _read_list(joined: Joined, path: Path) -> None:
    membership = next((one for one in joined.memberships.values() if one.fleet.name == path.stem), None)
    if membership is None:
        raise FleetError(f"there is no fleet {path.stem!r} that it could be of: remove it")
    key, damaged = membership.fleet.public_key, Membership(membership.fleet, membership.own, damaged=True)
    joined.memberships[key] = damaged
    listed = fleets.parse_list(files.read(path, fleets.TEXT_MAX + 2), {key: membership.fleet})
    joined.memberships[key] = Membership(membership.fleet, membership.own, listed)


def _read_member(joined: Joined, path: Path) -> None:
    if len(joined.members) >= fleets.MEMBERS_MAX:
        raise UnsafeError(f"there are more members than {fleets.MEMBERS_MAX}")
    joined.members[path] = fleets.parse_card(files.read(path, _MEMBER_LIMIT), joined.keys)
