"""The trust store: one file ``NAME.card`` for each peer. Who writes a card here trusts its node.

While a peer's key is being changed ``NAME.next`` holds the card of its next key, which is in force beside the present
one; to end the present one it is renamed (ADR 0041). It has a second line: what marks the channel of that key.

``FINGERPRINT.revoked`` revokes a key (ADR 0046): no card with it is in force, whoever lays it here and whenever. The
file's name is what counts, so that neither an empty nor an unreadable one is worth less; its text says why.

Fleets (fleets.py) add members and revoked keys. A card that was added by hand goes before a member's.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from meshsec import files
from meshsec.adapters.files.trust_store import fleets
from meshsec.adapters.files.trust_store.fleets import MEMBER_SUFFIX, Joined
from meshsec.adapters.files.trust_store.place import (
    MARK,
    NEXT,
    NEXT_SUFFIX,
    REVOKED_SUFFIX,
    SUFFIX,
    Problem,
    TrustStoreError,
    UnsafeError,
    listed,
    locked,
    read,
    title_of,
    write,
)
from meshsec.core.channels import ipv4_claims
from meshsec.core.channels.ipv4_claims import Surroundings
from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import IdentityError, checked_name
from meshsec.core.values.model import Card, Peer

__all__ = [
    "NEXT",
    "NEXT_SUFFIX",
    "REVOKED_SUFFIX",
    "SUFFIX",
    "Problem",
    "TrustStoreError",
    "add",
    "add_next",
    "end",
    "load",
    "remove",
    "revocations",
    "revoke",
    "unrevoke",
]

_LIMIT = 1024
"""Octets of a card file, and of what is said about a revoked key."""
REASON_LIMIT = 200
"""Characters of the reason of a revocation."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def load(directory: Path, own: Card) -> tuple[dict[str, Peer], tuple[Problem, ...]]:
    """The trusted peers by name, and every file that is refused; one bad card does not hide the others.

    Of two cards that contradict each other, neither is in force, because nobody can know which is meant. Whether an
    IPv4 address is believed is decided where the node's surroundings are known (core/channels/ipv4_claims.py). A
    directory that does not exist trusts nobody. Raise TrustStoreError when the directory cannot be read.
    """
    peers: dict[str, Peer] = {}
    joined = fleets.read(directory)
    by_hand, problems = _revocations(directory)
    revoked = joined.revoked() | by_hand
    problems += joined.problems
    for path in (*listed(directory, SUFFIX), *listed(directory, NEXT_SUFFIX)):
        try:
            peers[title_of(path)] = _not_revoked(_peer(path), revoked, by_hand)
        except (files.FileError, cards.CardError, IdentityError, UnsafeError) as error:
            problems.append(Problem(path, str(error).removeprefix(f"{path}: ")))
    for name, message in _conflicts(peers, own).items():
        del peers[name]
        problems.append(Problem(_path(directory, name), message))
    problems += _add_members(peers, joined, revoked, own)
    return peers, tuple(sorted(problems, key=str))


def add(directory: Path, name: str, card: Card, own: Card, around: Surroundings | None = None) -> Peer:
    """Trust ``card`` under ``name``. Adding the same card again changes nothing. Raises TrustStoreError.

    Another card with the key of the peer of that name takes the place of the one that is there. ``around``: what the
    card's IPv4 address is judged by; None: only by the other cards.
    """
    try:
        peer = Peer(checked_name(name), card)
    except IdentityError as error:
        raise TrustStoreError(str(error)) from error
    with locked(directory):
        peers = _by_hand(load(directory, own)[0])
        path = directory / f"{name}{SUFFIX}"
        known = peers.get(name)
        if known and known.card == card:
            return known
        _refuse_revoked(directory, peer)
        if known and known.card.public_key == card.public_key:
            peer = replace(known, card=card)
        elif path.exists():
            raise TrustStoreError(f"{path}: there is a peer {name!r} with another card; remove it first")
        conflict = _refused({**peers, name: peer}, name, own, around)
        if conflict:
            raise TrustStoreError(f"{name!r} is not added: {conflict}")
        _written(path, card, peer.key.removeprefix(name))
    return peer


def add_next(directory: Path, name: str, card: Card, own: Card, around: Surroundings | None = None) -> Peer:
    """Trust the next key of peer ``name``, too. The same card again changes nothing. Raises TrustStoreError.

    Another card with that next key takes the place of the one that is there.
    """
    with locked(directory):
        peers, problems = load(directory, own)
        peers = _by_hand(peers)
        title = name + NEXT
        if name not in peers:
            _refuse_member(directory, name)
        if name not in peers or title in {problem.title for problem in problems}:
            refused = [str(problem) for problem in problems if problem.title in {name, title}]
            raise TrustStoreError("; ".join(refused) or f"there is no peer {name!r}: `meshsec peer add` trusts one")
        for known in filter(None, (peers[name], peers.get(title))):
            if known.card == card:
                return known
        if title in peers and peers[title].card.public_key != card.public_key:
            raise TrustStoreError(f"{name!r} has a next key already: `meshsec peer end {name}` ends the present one")
        mark = "" if peers[name].key.endswith(NEXT) else NEXT
        peer = Peer(title, card, "" if mark else name)
        _refuse_revoked(directory, peer)
        conflict = _refused({**peers, title: peer}, title, own, around)
        if conflict:
            raise TrustStoreError(f"the next key of {name!r} is not added: {conflict}")
        _written(_path(directory, title), card, mark)
    return peer


def end(directory: Path, name: str, own: Card) -> Peer:
    """Trust the present key of ``name`` no longer: the next takes its place. Raises TrustStoreError."""
    with locked(directory):
        peers, _ = load(directory, own)
        following = peers.get(name + NEXT)
        if following is None:
            raise TrustStoreError(f"peer {name!r} has no next key in force: `meshsec peer next {name} CARD` adds one")
        if following.fleet:
            raise TrustStoreError(
                f"the fleet {following.fleet!r} has signed both keys: its `meshsec fleet revoke` ends one"
            )
        try:
            files.rename(_path(directory, following.name), _path(directory, name))
        except files.FileError as error:
            raise TrustStoreError(str(error)) from error
    return following


def remove(directory: Path, name: str) -> None:
    """Trust ``name`` no longer, none of its keys and whether its card is good or not. Raises TrustStoreError."""
    with locked(directory):
        path = directory / f"{name}{SUFFIX}"
        if path not in listed(directory, SUFFIX):
            _refuse_member(directory, name)
            known = ", ".join(known.stem for known in listed(directory, SUFFIX)) or "none"
            raise TrustStoreError(f"there is no peer {name!r}; known: {known}")
        try:
            if files.exists(following := _path(directory, name + NEXT)):
                files.remove(following)
            files.remove(path)
        except files.FileError as error:
            raise TrustStoreError(str(error)) from error


def revocations(directory: Path) -> dict[str, str]:
    """The revoked keys by fingerprint (64 hexadecimal digits), with what is said about each. Raises TrustStoreError."""
    return fleets.read(directory).revoked() | _revocations(directory)[0]


def revoke(directory: Path, target: str, reason: str, own: Card) -> tuple[str, ...]:
    """Revoke the keys of a peer by its name, or one key by its fingerprint or its card; their fingerprints.

    It is not in force from now on, and no card with it will be until ``unrevoke``. Of a peer whose other key is not
    revoked that one stays. Raises TrustStoreError.
    """
    if len(reason) > REASON_LIMIT or not reason.isprintable():
        raise TrustStoreError(f"the reason is {reason[:REASON_LIMIT]!r}; allowed: {REASON_LIMIT} printable characters")
    with locked(directory):
        held = _held(directory)
        chosen = _chosen(target, held)
        if own.fingerprint.hex() in chosen:
            raise TrustStoreError("that is this node's own key: `meshsec key next` makes another")
        for fingerprint in chosen:
            name = next(
                (_called(path, card) for path, card in held.items() if card.fingerprint.hex() == fingerprint), ""
            )
            write(directory / f"{fingerprint}{REVOKED_SUFFIX}", ": ".join(filter(None, (name, reason))) + "\n")
        _withdraw(directory, held)
    return chosen


def unrevoke(directory: Path, fingerprint: str) -> None:
    """Let a key be trusted again; no card comes back by that. Raises TrustStoreError."""
    with locked(directory):
        known = _revocations(directory)[0]
        if fingerprint not in known:
            raise TrustStoreError(
                f"{fingerprint!r} is no fingerprint of a revoked key; revoked: {', '.join(known) or 'none'}"
            )
        try:
            files.remove(directory / f"{fingerprint}{REVOKED_SUFFIX}")
        except files.FileError as error:
            raise TrustStoreError(str(error)) from error


def _by_hand(peers: Mapping[str, Peer]) -> dict[str, Peer]:
    """Those whose card was added on this node."""
    return {name: peer for name, peer in peers.items() if not peer.fleet}


def _refuse_member(directory: Path, name: str) -> None:
    """Say why what is for cards that were added here does not work for a member of a fleet. Raises TrustStoreError."""
    if any(member.card.name == name for member in fleets.read(directory).members.values()):
        raise TrustStoreError(
            f"{name!r} is a peer because a fleet has signed its card: `meshsec peer revoke {name}` ends that here"
        )


def _add_members(peers: dict[str, Peer], joined: Joined, revoked: Mapping[str, str], own: Card) -> list[Problem]:
    """Add the members of the fleets; those that contradict what is there already are not in force."""
    problems = []
    keys = {own.public_key, *(peer.card.public_key for peer in peers.values())}
    taken = {claim: noun for card in (own, *(peer.card for peer in peers.values())) for claim, noun in _claims(card)}
    by_hand = set(peers)
    good = [path for path, one in joined.current().items() if one.card.fingerprint.hex() not in revoked]
    for path in sorted(good, key=lambda path: (joined.members[path].since, str(path))):
        member = joined.members[path]
        card, fleet = member.card, joined.memberships[member.fleet].fleet.name
        if card.public_key in keys or joined.is_own(member, own):
            continue
        present = peers.get(card.name) if card.name not in by_hand else None
        its_own = present is not None and present.fleet == fleet
        obstacle = next((f"its {noun} is another's" for claim, noun in _claims(card) if claim in taken), "")
        if card.name in peers and not its_own:
            obstacle = f"there is another peer of its name, {card.name!r}"
        if joined.late(member):
            obstacle = f"its time has ended: the fleet {fleet!r} signed it until {member.until}"
        if obstacle:
            problems.append(Problem(path, f"{card.name!r} of the fleet {fleet!r} is not in force: {obstacle}"))
            continue
        title = card.name + NEXT if present else card.name
        peers[title] = _member(title, card, fleet, joined.marks[path], present)
        taken.update(_claims(card))
    return problems


def _member(title: str, card: Card, fleet: str, mark: str, present: Peer | None) -> Peer:
    """Of the two keys of one the channels differ, whatever their files say."""
    if present and present.key == card.name + mark:
        mark = "" if mark else NEXT
    channel = card.name + mark
    return Peer(title, card, "" if channel == title else channel, fleet=fleet)


def _held(directory: Path) -> dict[Path, Card]:
    """The cards that can be read, in force or not."""
    found = {}
    for path in (*listed(directory, SUFFIX), *listed(directory, NEXT_SUFFIX)):
        try:
            found[path] = cards.parse(files.read(path, _LIMIT).partition(MARK)[0])
        except (files.FileError, cards.CardError):
            continue
    return found | {path: member.card for path, member in fleets.read(directory).members.items()}


def _called(path: Path, card: Card) -> str:
    return card.name if path.suffix == MEMBER_SUFFIX else title_of(path)


def _chosen(target: str, held: Mapping[Path, Card]) -> tuple[str, ...]:
    if _FINGERPRINT.fullmatch(target):
        return (target,)
    named = tuple(card.fingerprint.hex() for path, card in held.items() if path.stem == target)
    members = (card for path, card in held.items() if path.suffix == MEMBER_SUFFIX)
    named = named or tuple(card.fingerprint.hex() for card in members if card.name == target)
    if named:
        return named
    try:
        return (cards.parse(target).fingerprint.hex(),)
    except cards.CardError:
        known = ", ".join(path.stem for path in held if path.suffix == SUFFIX) or "none"
        raise TrustStoreError(
            f"{target!r} is no peer, no card and no fingerprint of 64 hexadecimal digits; peers: {known}"
        ) from None


def _withdraw(directory: Path, held: Mapping[Path, Card]) -> None:
    """Take away the cards of keys revoked here; a next key that is good takes the place of the present one."""
    revoked = _revocations(directory)[0]
    bad = {path for path, card in held.items() if card.fingerprint.hex() in revoked}
    try:
        for path in sorted(bad, key=lambda path: path.suffix, reverse=True):  # .next before .card
            following = path.with_suffix(NEXT_SUFFIX)
            if path.suffix == SUFFIX and following in held and following not in bad:
                files.rename(following, path)
            else:
                files.remove(path)
    except files.FileError as error:
        raise TrustStoreError(str(error)) from error


def _revocations(directory: Path) -> tuple[dict[str, str], list[Problem]]:
    """What is revoked, and files whose name says so of no key."""
    found: dict[str, str] = {}
    problems = []
    for path in listed(directory, REVOKED_SUFFIX):
        if not _FINGERPRINT.fullmatch(path.stem):
            allowed = f"64 hexadecimal digits and {REVOKED_SUFFIX}"
            problems.append(Problem(path, f"revokes nothing: the name is {path.name!r}; allowed: {allowed}"))
            continue
        try:
            said = files.read(path, _LIMIT).strip()
        except files.FileError:
            said = ""
        found[path.stem] = "".join(filter(str.isprintable, said))
    return found, problems


def _not_revoked(peer: Peer, revoked: Mapping[str, str], by_hand: Mapping[str, str]) -> Peer:
    fingerprint = peer.card.fingerprint.hex()
    if fingerprint in revoked:
        why = f" ({revoked[fingerprint]})" if revoked[fingerprint] else ""
        back = f": only `meshsec peer unrevoke {fingerprint}` takes that back" if fingerprint in by_hand else ""
        raise UnsafeError(f"its key is revoked{why}{back}")
    return peer


def _refuse_revoked(directory: Path, peer: Peer) -> None:
    try:
        _not_revoked(peer, revocations(directory), _revocations(directory)[0])
    except UnsafeError as error:
        raise TrustStoreError(f"{peer.name!r} is not added: {error}") from None


def _path(directory: Path, title: str) -> Path:
    is_next = title.endswith(NEXT)
    return directory / f"{title.removesuffix(NEXT)}{NEXT_SUFFIX if is_next else SUFFIX}"


def _peer(path: Path) -> Peer:
    name = checked_name(path.stem)
    text = read(path, _LIMIT)
    if path.suffix == NEXT_SUFFIX and not files.exists(path.with_suffix(SUFFIX)):
        raise UnsafeError("there is no card whose place it is to take: remove it, or add the peer")
    card, _, mark = text.partition(MARK)
    if mark.strip() not in {"", NEXT}:
        raise UnsafeError(f"the channel's mark is {mark.strip()!r}; allowed: none and {NEXT!r}")
    title, channel = title_of(path), name + mark.strip()
    return Peer(title, cards.parse(card), "" if channel == title else channel)


def _refused(peers: Mapping[str, Peer], name: str, own: Card, around: Surroundings | None) -> str:
    """Why a new peer is not added beside the others; empty when nothing is against it."""
    claim = peers[name].card.ipv4
    doubt = ipv4_claims.contested(peers, own).get(name, "")
    if claim is not None and around is not None:
        doubt = doubt or ipv4_claims.refusal(claim, around)
    return _conflicts(peers, own).get(name, "") or (f"its IPv4 address {doubt}" if doubt else "")


def _conflicts(peers: Mapping[str, Peer], own: Card) -> dict[str, str]:
    """Why a peer cannot be in force beside the others, by name."""
    found: dict[str, str] = {}
    holders: dict[object, str] = {own.public_key: "", own.address: ""}
    for name, peer in sorted(peers.items()):
        for claim, noun in _claims(peer.card):
            if claim not in holders:
                holders[claim] = name
                continue
            holder = holders[claim]
            if not holder:
                found.setdefault(name, f"its {noun} is this node's own")
            elif holder != name:
                found.setdefault(name, f"its {noun} is also that of peer {holder!r}")
                found.setdefault(holder, f"its {noun} is also that of peer {name!r}")
    return found


def _claims(card: Card) -> Iterator[tuple[object, str]]:
    yield card.public_key, "public key"
    yield card.address, f"address {card.address}"


def _written(path: Path, card: Card, mark: str = "") -> None:
    line = f"{MARK}{mark}" if mark else ""
    write(path, f"{cards.render(card)}{line}\n")
