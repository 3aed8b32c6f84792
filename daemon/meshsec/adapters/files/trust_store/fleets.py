"""The files of the fleets that a node has joined (ADR 0046).

``NAME.fleet`` holds the fleet's card, then this node's own card as the fleet has signed it, and that of its next key.
``NAME.list`` is the newest trust list, ``NAME.notes`` what is said of the keys on it, ``FINGERPRINT.member`` the signed
card of a member. These come from other nodes and are trusted only because of their signatures.

``fleet.sought`` is what six words say of the key of a fleet that the node looks for, in hexadecimal.

A member's file has a second line, written by this node: the mark of that key's channel. core/trust/membership.py
decides which cards of one name count.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from meshsec import files
from meshsec.adapters.files.trust_store import place
from meshsec.adapters.files.trust_store.memory import Memory
from meshsec.adapters.files.trust_store.place import TrustStoreError, UnsafeError
from meshsec.core.trust import fleets, revocation_notes
from meshsec.core.trust.fingerprint_words import SAID_OCTETS, first_octets
from meshsec.core.trust.fleets import Fleet, FleetError, SignedCard
from meshsec.core.trust.membership import Joined, Membership, placed
from meshsec.core.values.model import Card

FLEET_SUFFIX = ".fleet"
LIST_SUFFIX = ".list"
MEMBER_SUFFIX = ".member"
NOTES_SUFFIX = ".notes"
SOUGHT_SUFFIX = ".sought"
SUFFIXES = frozenset({FLEET_SUFFIX, LIST_SUFFIX, MEMBER_SUFFIX, NOTES_SUFFIX, SOUGHT_SUFFIX})

_FLEET_LIMIT = 2048
_MEMBER_LIMIT = 1024
"""Limit of a member's file in bytes."""
_MEMBERS = Memory(str, _MEMBER_LIMIT)


def read(directory: Path) -> Joined:
    """Read everything about fleets. One bad file does not affect the others. Raises TrustStoreError."""
    joined = Joined()
    for path in place.listed(directory, FLEET_SUFFIX):
        _collect(joined, path, _read_fleet)
    for path in place.listed(directory, LIST_SUFFIX):
        _collect(joined, path, _read_list)
    for path in place.listed(directory, NOTES_SUFFIX):
        _collect(joined, path, _read_notes)
    for path in place.listed(directory, MEMBER_SUFFIX):
        _collect(joined, path, _read_member)
    for path in place.listed(directory, SOUGHT_SUFFIX):
        _collect(joined, path, _read_sought)
    return joined


def join(directory: Path, fleet: Fleet, own_text: str, own: Sequence[Card]) -> Membership:
    """Join a fleet with this node's own card as the fleet has signed it (empty: not yet). Raises TrustStoreError.

    ``own`` are the cards of this node's keys. A signed card for another of these keys is kept.
    """
    signed = _own(own_text, fleet, own)
    with place.locked(directory):
        return _join(directory, fleet, signed, own)


def _join(directory: Path, fleet: Fleet, signed: SignedCard | None, own: Sequence[Card]) -> Membership:
    """Do what ``join`` says. The caller holds the lock, which nobody can take twice."""
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
    _end_search(directory, first_octets(fleet.fingerprint))
    return membership


def seek(directory: Path, sought: bytes) -> Membership | None:
    """Look for the fleet whose key six words mean, instead of any other one. Raises TrustStoreError.

    Return the membership if that fleet is joined already; then nothing is looked for.
    """
    with place.locked(directory):
        known = read(directory).memberships.values()
        found = next((one for one in known if first_octets(one.fleet.fingerprint) == sought), None)
        if found is None:
            place.write(directory / f"fleet{SOUGHT_SUFFIX}", f"{sought.hex()}\n")
    return found


def end_search(directory: Path, sought: bytes) -> bool:
    """Look for a fleet no more. Return whether this node did. Raises TrustStoreError."""
    with place.locked(directory):
        return _end_search(directory, sought)


def _end_search(directory: Path, sought: bytes) -> bool:
    if not sought or read(directory).sought != sought:
        return False
    place.remove(directory / f"fleet{SOUGHT_SUFFIX}")
    return True


def join_sought(directory: Path, fleet: Fleet, own: Sequence[Card]) -> bool:
    """Join a fleet that this node looks for, and return whether it does. Raises TrustStoreError."""
    with place.locked(directory):
        if read(directory).sought != first_octets(fleet.fingerprint):
            return False
        _join(directory, fleet, None, own)
    return True


def admit(directory: Path, own_octets: bytes, members: Sequence[bytes], own: Sequence[Card]) -> bool:
    """Save this node's own signed card, if it has none of that fleet or an older one, and members' cards (ADR 0070).

    Return whether any was new. Raises TrustStoreError unless fleets that this node has joined have signed them all.
    """
    with place.locked(directory):
        known = read(directory)
        signed = _checked(own_octets, known)
        for member in members:
            _checked(member, known)
        is_new = _renews(known, signed)
        if is_new:
            fleet = known.memberships[signed.fleet].fleet
            _join(directory, fleet, _own(fleets.card_text(signed), fleet, own), own)
        return bool(_take_members(directory, members, own[0])) or is_new


def take_own(directory: Path, octets: Iterable[bytes], own: Sequence[Card]) -> bool:
    """Save the cards of this node that a fleet has signed again. Return whether there were any.

    A node is not made a member so: it has a signed card of that fleet and key already. Raises TrustStoreError.
    """
    keys = {card.public_key for card in own}
    ours = [one for one in octets if fleets.said_key(one) in keys]
    if not ours:
        return False
    with place.locked(directory):
        known = read(directory)
        signed = [_checked(one, known) for one in ours]
        found = [one for one in signed if known.memberships[one.fleet].of(one.card) and _renews(known, one)]
        for one in sorted(found, key=lambda each: each.since):
            _join(directory, known.memberships[one.fleet].fleet, one, own)
    return bool(found)


def _checked(octets: bytes, known: Joined) -> SignedCard:
    """Return a card that a joined fleet has signed. Raises TrustStoreError."""
    try:
        return fleets.read_card(octets, known.keys)
    except FleetError as error:
        raise TrustStoreError(str(error)) from error


def _renews(known: Joined, signed: SignedCard) -> bool:
    """Return whether this node has no signed card of that fleet and key, or an older one."""
    before = known.memberships[signed.fleet].of(signed.card)
    return before is None or before.since < signed.since


def leave(directory: Path, name: str) -> None:
    """Stop trusting everything that the fleet has signed, and forget the fleet. Raises TrustStoreError."""
    with place.locked(directory):
        joined = read(directory)
        membership = next((one for one in joined.memberships.values() if one.fleet.name == name), None)
        if membership is None:
            known = ", ".join(one.fleet.name for one in joined.memberships.values()) or "none"
            raise TrustStoreError(f"{name!r} is no fleet of this node; joined: {known}")
        members = [directory / file for file, one in joined.members.items() if one.fleet == membership.fleet.public_key]
        listed = directory / f"{name}{LIST_SUFFIX}"
        place.remove(directory / f"{name}{FLEET_SUFFIX}")  # first: after an interruption nobody of the fleet is trusted
        for path in (*members, listed, directory / f"{name}{NOTES_SUFFIX}"):
            if files.exists(path):
                place.remove(path)


def take_list(directory: Path, octets: bytes) -> bool:
    """Save a trust list, or the notes on one, if it is newer than the known one, and return whether it was.

    Raises TrustStoreError.
    """
    if revocation_notes.are_notes(octets):
        return _take_notes(directory, octets)
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
        for file, member in joined.members.items():
            ended = member.fleet == listed.fleet and member.over(listed.number)
            if ended or member.card.fingerprint in listed.revoked:
                place.remove(directory / file)
    return True


def _take_notes(directory: Path, octets: bytes) -> bool:
    with place.locked(directory):
        joined = read(directory)
        try:
            notes = revocation_notes.read(octets, joined.keys)
        except FleetError as error:
            raise TrustStoreError(str(error)) from error
        membership = joined.memberships[notes.fleet]
        if membership.notes and notes.number <= membership.notes.number:
            return False
        place.write(directory / f"{membership.fleet.name}{NOTES_SUFFIX}", revocation_notes.text(notes) + "\n")
    return True


def take_members(directory: Path, octets: Iterable[bytes], own: Card) -> int:
    """Save signed cards that are new and return their number. One bad card refuses all. Raises TrustStoreError."""
    with place.locked(directory):
        return _take_members(directory, octets, own)


def _take_members(directory: Path, octets: Iterable[bytes], own: Card) -> int:
    """Do what ``take_members`` says. The caller holds the lock."""
    joined = read(directory)
    revoked = joined.revoked() | {path.stem: "" for path in place.listed(directory, place.REVOKED_SUFFIX)}
    came = [_checked(one, joined) for one in octets]
    try:
        return sum(_take(directory, joined, member, own, revoked) for member in came)
    except FleetError as error:
        raise TrustStoreError(str(error)) from error


def inherit(directory: Path, card: Card, mark: str) -> None:
    """Let the member with the key of an added card, which is about to be removed, go on with that card's channel.

    Raises TrustStoreError.
    """
    file = _file(card)
    if not files.exists(directory / file):
        return
    joined = read(directory)
    member = joined.members.get(file)
    if member and joined.marks[file] != mark:
        _write_member(directory / file, member, mark)


def _take(directory: Path, joined: Joined, member: SignedCard, own: Card, revoked: Mapping[str, str]) -> bool:
    file = _file(member.card)
    found = placed(joined, file, member, own, revoked)
    if found is None:
        return False
    _write_member(directory / file, member, found.mark)
    for other in found.gone:
        del joined.members[other]
        place.remove(directory / other)
    joined.members[file], joined.marks[file] = member, found.mark
    return True


def _file(card: Card) -> str:
    return f"{card.fingerprint.hex()}{MEMBER_SUFFIX}"


def _write_member(path: Path, member: SignedCard, mark: str) -> None:
    place.write(path, fleets.card_text(member) + (f"{place.MARK}{mark}" if mark else "") + "\n")


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
        joined.refused[path.name] = str(error).removeprefix(f"{path}: ")
        joined.unclear |= path.suffix in {FLEET_SUFFIX, LIST_SUFFIX}


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


def _read_notes(joined: Joined, path: Path) -> None:
    membership = next((one for one in joined.memberships.values() if one.fleet.name == path.stem), None)
    if membership is None:
        raise FleetError(f"there is no fleet {path.stem!r} that they could be of: remove the file")
    key = membership.fleet.public_key
    notes = revocation_notes.parse(files.read(path, fleets.TEXT_MAX + 2), {key: membership.fleet})
    joined.memberships[key] = replace(membership, notes=notes)


def _read_member(joined: Joined, path: Path) -> None:
    if len(joined.members) >= fleets.MEMBERS_MAX:
        raise UnsafeError(f"there are more members than {fleets.MEMBERS_MAX}")
    text, _, mark = _MEMBERS.read(path)[0].partition(place.MARK)
    joined.members[path.name] = fleets.parse_card(text, joined.keys)
    joined.marks[path.name] = place.NEXT if mark.strip() == place.NEXT else ""


def _read_sought(joined: Joined, path: Path) -> None:
    text = place.read(path, 4 * SAID_OCTETS).strip()
    try:
        sought = bytes.fromhex(text)
    except ValueError:
        sought = b""
    if len(sought) != SAID_OCTETS:
        raise FleetError(
            f"it says {text!r}; allowed: {2 * SAID_OCTETS} hexadecimal digits. `meshsec fleet join` makes it"
        )
    joined.sought = sought
