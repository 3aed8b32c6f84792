"""The trust store: one file ``NAME.card`` for each peer. To write a card here is to trust its node.

During a change of a peer's key ``NAME.next`` holds the card of its next key, which is valid beside the present one.
Ending the present key renames the file (ADR 0041). Its second line is the mark of that key's channel.

``FINGERPRINT.revoked`` revokes a key (ADR 0046): every card with that key is refused, now and later. Only the file's
name counts, so an empty or unreadable file revokes too; the text gives the reason.

Fleets (fleets.py) add members and revoked keys. core/trust/roster.py decides whose card is in force. A file that has
not changed is not opened again (memory.py).
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from meshsec import files
from meshsec.adapters.files.trust_store import fleets
from meshsec.adapters.files.trust_store.fleets import MEMBER_SUFFIX
from meshsec.adapters.files.trust_store.memory import Memory
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
    refuse_shared,
    title_of,
    write,
)
from meshsec.core.channels import ipv4_claims
from meshsec.core.channels.ipv4_claims import Surroundings
from meshsec.core.trust import card as cards
from meshsec.core.trust import roster as rosters
from meshsec.core.trust.identity import IdentityError, checked_name
from meshsec.core.trust.membership import Joined
from meshsec.core.trust.roster import Held, RefusedError, Revocations, Roster
from meshsec.core.values.model import Card, Peer

__all__ = [
    "NEXT",
    "NEXT_SUFFIX",
    "REVOKED_SUFFIX",
    "SUFFIX",
    "Contents",
    "Problem",
    "TrustStoreError",
    "add",
    "add_next",
    "end",
    "load",
    "read",
    "remove",
    "revocations",
    "revoke",
    "unrevoke",
]

_LIMIT = 1024
"""Limit in bytes of a card file, and of the text about a revoked key."""
REASON_LIMIT = 200
"""Limit in characters of the reason of a revocation."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def _parsed(text: str) -> Held:
    card, _, mark = text.partition(MARK)
    return Held(cards.parse(card), mark.strip())


_CARDS = Memory(_parsed, _LIMIT)
_REASONS = Memory(str, _LIMIT)


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of the trust store."""

    roster: Roster
    joined: Joined
    revocations: Revocations
    problems: tuple[Problem, ...]
    """Every file that is refused, with the reason."""

    def refused(self) -> frozenset[str]:
        """Return the titles of the peers whose files are refused."""
        return frozenset(problem.title for problem in self.problems)


def read(directory: Path, own: Card) -> Contents:
    """Read the trust store. One bad file does not affect the others. A missing directory trusts nobody.

    Raises TrustStoreError if the directory cannot be read.
    """
    joined = fleets.read(directory)
    here, problems = _revocations(directory)
    held, unreadable = _cards(directory)
    revocations = Revocations(here, joined.revoked())
    roster = rosters.decide(held, {path.stem for path in listed(directory, SUFFIX)}, revocations, joined, own)
    problems += unreadable
    problems += [Problem(_path(directory, title), why) for title, why in roster.refused.items()]
    for file, why in (*joined.refused.items(), *roster.refused_members.items()):
        problems.append(Problem(directory / file, why))
    return Contents(roster, joined, revocations, tuple(sorted(problems, key=str)))


def load(directory: Path, own: Card) -> tuple[dict[str, Peer], tuple[Problem, ...]]:
    """Return the trusted peers by name, and every file that is refused. Raises TrustStoreError as ``read`` does."""
    contents = read(directory, own)
    return contents.roster.peers, contents.problems


def add(directory: Path, name: str, card: Card, own: Card, around: Surroundings | None = None) -> Peer:
    """Trust ``card`` under ``name``. Adding the same card again changes nothing. Raises TrustStoreError.

    Another card with the key of the peer of that name replaces the one in the store. The card's IPv4 address is checked
    against ``around``, or only against the other cards if that is None.
    """
    try:
        path = directory / f"{checked_name(name)}{SUFFIX}"
    except IdentityError as error:
        raise TrustStoreError(str(error)) from error
    with locked(directory):
        roster = read(directory, own).roster
        try:
            peer = rosters.added(roster, name, card, str(path) if path.exists() else "")
        except RefusedError as error:
            raise TrustStoreError(str(error)) from error
        return _taken(directory, roster, peer, around)


def add_next(directory: Path, name: str, card: Card, own: Card, around: Surroundings | None = None) -> Peer:
    """Trust the next key of peer ``name``, too. The same card again changes nothing. Raises TrustStoreError.

    Another card with that next key replaces the one in the store.
    """
    with locked(directory):
        found = read(directory, own)
        is_known = name in found.roster.by_hand()
        if not is_known:
            _refuse_member(directory, name)
        if not is_known or name + NEXT in found.refused():
            refused = [str(problem) for problem in found.problems if problem.title in {name, name + NEXT}]
            raise TrustStoreError("; ".join(refused) or f"there is no peer {name!r}: `meshsec peer add` trusts one")
        try:
            peer = rosters.added_next(found.roster, name, card)
        except RefusedError as error:
            raise TrustStoreError(str(error)) from error
        return _taken(directory, found.roster, peer, around)


def end(directory: Path, name: str, own: Card) -> Peer:
    """Stop trusting the present key of ``name``; its next key takes the place. Raises TrustStoreError."""
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
    """Stop trusting ``name`` with all its keys, even if its card is refused. Raises TrustStoreError.

    A member of a fleet with the same key stays a peer, and its SA stays.
    """
    with locked(directory):
        path = directory / f"{name}{SUFFIX}"
        if path not in listed(directory, SUFFIX):
            _refuse_member(directory, name)
            known = ", ".join(known.stem for known in listed(directory, SUFFIX)) or "none"
            raise TrustStoreError(f"there is no peer {name!r}; known: {known}")
        try:
            following = _path(directory, name + NEXT)
            for gone in filter(files.exists, (following, path)):
                _leave_channel(directory, gone)
                files.remove(gone)
        except files.FileError as error:
            raise TrustStoreError(str(error)) from error


def _leave_channel(directory: Path, path: Path) -> None:
    """Leave the channel of an added card, if it can be read, to the member with its key."""
    with suppress(files.FileError, cards.CardError, UnsafeError):
        held = _said(path)
        fleets.inherit(directory, held.card, held.mark)


def revocations(directory: Path) -> dict[str, str]:
    """Return the revoked keys by fingerprint (64 hexadecimal digits), each with its reason. Raises TrustStoreError."""
    return Revocations(_revocations(directory)[0], fleets.read(directory).revoked()).all()


def revoke(directory: Path, target: str, reason: str, own: Card) -> tuple[str, ...]:
    """Revoke the keys of a peer by its name, or one key by its fingerprint or card. Return their fingerprints.

    The keys, and every card with them, are refused from now on until ``unrevoke``. A key of the peer that is not
    revoked stays in force. Raises TrustStoreError.
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
    """Allow a key to be trusted again. Its cards must be added again. Raises TrustStoreError."""
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


def _refuse_member(directory: Path, name: str) -> None:
    """Refuse a member of a fleet where only peers that were added here are allowed. Raises TrustStoreError."""
    if any(member.card.name == name for member in fleets.read(directory).members.values()):
        raise TrustStoreError(
            f"{name!r} is a peer because a fleet has signed its card: `meshsec peer revoke {name}` ends that here"
        )


def _held(directory: Path) -> dict[Path, Card]:
    """Return the cards that can be read, in force or not."""
    found = {}
    for path in (*listed(directory, SUFFIX), *listed(directory, NEXT_SUFFIX)):
        try:
            found[path] = _CARDS.read(path)[0].card
        except (files.FileError, cards.CardError):
            continue
    return found | {directory / file: member.card for file, member in fleets.read(directory).members.items()}


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
    """Remove the cards of keys that are revoked here. A valid next key takes the place of the present one."""
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
    """Return the revoked keys, and the files whose names are not a fingerprint."""
    found: dict[str, str] = {}
    problems = []
    for path in listed(directory, REVOKED_SUFFIX):
        if not _FINGERPRINT.fullmatch(path.stem):
            allowed = f"64 hexadecimal digits and {REVOKED_SUFFIX}"
            problems.append(Problem(path, f"revokes nothing: the name is {path.name!r}; allowed: {allowed}"))
            continue
        try:
            said = _REASONS.read(path)[0].strip()
        except files.FileError:
            said = ""
        found[path.stem] = "".join(filter(str.isprintable, said))
    return found, problems


def _path(directory: Path, title: str) -> Path:
    is_next = title.endswith(NEXT)
    return directory / f"{title.removesuffix(NEXT)}{NEXT_SUFFIX if is_next else SUFFIX}"


def _cards(directory: Path) -> tuple[dict[str, Held], list[Problem]]:
    """Return the added cards by title, and the files that hold no card."""
    found: dict[str, Held] = {}
    problems = []
    for path in (*listed(directory, SUFFIX), *listed(directory, NEXT_SUFFIX)):
        try:
            checked_name(path.stem)
            found[title_of(path)] = _said(path)
        except (files.FileError, cards.CardError, IdentityError, UnsafeError) as error:
            problems.append(Problem(path, str(error).removeprefix(f"{path}: ")))
    return found, problems


def _said(path: Path) -> Held:
    held, mode = _CARDS.read(path)
    refuse_shared(path, mode)
    if held.mark not in {"", NEXT}:
        raise UnsafeError(f"the channel's mark is {held.mark!r}; allowed: none and {NEXT!r}")
    return held


def _taken(directory: Path, roster: Roster, peer: Peer, around: Surroundings | None) -> Peer:
    """Write the card of an added peer if it is new and its IPv4 address is plausible. Raises TrustStoreError."""
    peers = roster.by_hand()
    if peer == peers.get(peer.name):
        return peer
    name = peer.name.removesuffix(NEXT)
    if doubt := _doubt({**peers, peer.name: peer}, peer, roster.own, around):
        noun = f"the next key of {name!r}" if peer.name.endswith(NEXT) else repr(name)
        raise TrustStoreError(f"{noun} is not added: its IPv4 address {doubt}")
    path, mark = _path(directory, peer.name), peer.key.removeprefix(name)
    text = f"{cards.render(peer.card)}{f'{MARK}{mark}' if mark else ''}\n"
    write(path, text)
    _CARDS.wrote(path, text, Held(peer.card, mark))
    return peer


def _doubt(peers: Mapping[str, Peer], peer: Peer, own: Card, around: Surroundings | None) -> str:
    """Return why the IPv4 address of a new peer is not plausible; empty if it is, or if there is none."""
    doubt = ipv4_claims.contested(peers, own).get(peer.name, "")
    if peer.card.ipv4 is not None and around is not None:
        doubt = doubt or ipv4_claims.refusal(peer.card.ipv4, around)
    return doubt
