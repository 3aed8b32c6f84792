"""``meshsec fleet``: the key that signs the cards of many nodes, and the nodes that take its word."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from meshsec.adapters.files import fleet_key, trust_store
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.cli import cards as shown
from meshsec.cli import fleet_join, fleet_requests, fleet_spread
from meshsec.cli import fleet_options as options
from meshsec.cli.app import FAILED, App
from meshsec.cli.fleet_join import reload
from meshsec.cli.fleet_options import DAY, spoken, text_of
from meshsec.cli.output import facts, json_option, print_json, print_table
from meshsec.core.trust import card as cards
from meshsec.core.trust import card_typos, fleets, revocation_notes
from meshsec.core.trust.fleets import Fleet, SignedCard, TrustList
from meshsec.core.trust.membership import Joined, Membership
from meshsec.core.trust.revocation_notes import Note, Notes, date

SCHEMA = "meshsec-fleet-1"

_FINGERPRINT_DIGITS = 2 * fleets.FINGERPRINT_LENGTH


@click.group
def fleet() -> None:
    """A key that signs cards, so that nobody has to add each of them on each node.

    init, sign, revoke, unrevoke, renew, show and join-file are for the machine of the fleet's operator, where the key
    is and which need be no node. join, take, leave and status are for nodes. requests, approve and refuse are for a
    member where the key is.
    """


for command in (
    fleet_join.join,
    fleet_join.join_file,
    fleet_join.leave,
    fleet_requests.requests,
    fleet_requests.approve,
    fleet_requests.refuse,
):
    fleet.add_command(command)


@fleet.command
@click.argument("name")
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that encrypts the key.")
@options.directory
def init(name: str, passphrase: bool, directory: Path) -> None:
    """Make the key of the fleet NAME, and print what nodes join it by."""
    secret = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else ""
    _tell(fleet_key.create(directory, name, secret), None)


@fleet.command
@click.argument("card", nargs=-1, required=True)
@click.option("--days", type=click.IntRange(1, 36500), help="How long the card is a member's; without: for ever.")
@shown.networks_option
@options.passphrase
@options.directory
def sign(
    card: tuple[str, ...], days: int | None, networks_allowed: bool | None, directory: Path, passphrase_stdin: bool
) -> None:
    """Make the node whose CARD this is a member, and print the signed card for it.

    CARD is the card itself, '@FILE', or '-' for standard input.
    """
    given = " ".join(card)
    if given == "-" and passphrase_stdin:
        raise click.UsageError(
            "the card and the passphrase cannot both come from standard input: give the card, or @FILE"
        )
    parsed = shown.decided(cards.parse(text_of(given)), networks_allowed, "meshsec fleet sign")
    signed = options.signed_card(directory, passphrase_stdin, parsed, days or 0)
    click.echo(fleets.card_text(signed))
    click.echo(f"{parsed.name}: {shown.addresses(parsed)}", err=True)
    if parsed.networks:
        click.echo(f"{parsed.name}: may speak for {shown.networks(parsed)}", err=True)
    click.echo(f"{parsed.name}: compare by voice: {shown.spoken(parsed)}", err=True)


@fleet.command
@click.argument("target", metavar="NAME|CARD|FINGERPRINT...", nargs=-1, required=True)
@click.option("--reason", default="", help="What all members are shown: why.")
@click.option(
    "--stolen",
    is_flag=True,
    help="On a member: take the list here at once, wait until the peers in reach have it, say where the node was last.",
)
@options.passphrase
@options.directory
@click.pass_obj
def revoke(  # noqa: PLR0913, PLR0917  # one for each option
    app: App, target: tuple[str, ...], reason: str, stolen: bool, directory: Path, passphrase_stdin: bool
) -> None:
    """Revoke keys: print the new trust list, for one node at least, which passes it on (`meshsec fleet take`).

    NAME is that of a card that was signed here; all its keys are revoked. The second line that is printed says name,
    date and reason of each revoked key. A node that is too old to read it does without. With --stolen, exit code 3
    when a peer in reach does not have the list yet.
    """
    names: dict[bytes, str] = {}
    with options.informing("no name of a card is known here"):
        names = fleet_key.signed_names(directory)
    added = {key: name for one in target for key, name in _targets(one, names).items()}
    revocation_notes.checked_reason(reason)
    known = fleet_key.fleet(directory)
    if stolen:
        fleet_spread.check_member(app, known)
    seen = fleet_spread.last_seen(app, added) if stolen else ()
    reason = reason or ("stolen" if stolen else "")
    lines = _sign_list(directory, passphrase_stdin, lambda revoked: revoked | added.keys(), reason, added)
    if stolen:
        take_lines(app, lines)
        fleet_spread.tell(app, known, seen)


@fleet.command
@click.argument("fingerprint", nargs=-1, required=True)
@options.passphrase
@options.directory
def unrevoke(fingerprint: tuple[str, ...], directory: Path, passphrase_stdin: bool) -> None:
    """Take back the revocation of keys, and print the new trust list."""
    _sign_list(directory, passphrase_stdin, lambda revoked: revoked - {_revoked(one, revoked) for one in fingerprint})


@fleet.command
@options.passphrase
@options.directory
def renew(directory: Path, passphrase_stdin: bool) -> None:
    """Sign the trust list again as it is: by its number nodes know how late it is, and cards that were signed until
    an earlier time end."""
    _sign_list(directory, passphrase_stdin, lambda revoked: revoked)


@fleet.command
@json_option
@options.directory
def show(directory: Path, as_json: bool) -> None:
    """Print what nodes join the fleet by, and the newest trust list."""
    known, listed = fleet_key.fleet(directory), fleet_key.trust_list(directory)
    membership = Membership(known, list=listed, notes=_notes(directory))
    if as_json:
        print_json({"schema": SCHEMA, "fleets": [_view(membership, None, 0)], "problems": []})
    else:
        _tell(known, listed)
        _print_revoked([membership])


@fleet.command
@click.argument("text", metavar="LIST|SIGNED CARD...", nargs=-1, required=True)
@click.pass_obj
def take(app: App, text: tuple[str, ...]) -> None:
    """Take a trust list or signed cards of a fleet that is joined, and pass them on to the peers.

    Each is the line itself, '@FILE' with one on each line, or '-' for standard input.
    """
    take_lines(app, [line for one in text for line in text_of(one).split()])


def take_lines(app: App, lines: Sequence[str]) -> None:
    """Take what lines say, and print how much of it is new."""
    keys = store.read(app.peers_directory).keys
    members = [fleets.parse_card(line, keys).octets for line in lines if fleets.is_card(line)]
    notes = [revocation_notes.parse(line, keys).octets for line in lines if revocation_notes.are_notes_text(line)]
    others = (line for line in lines if not (fleets.is_card(line) or revocation_notes.are_notes_text(line)))
    lists = [fleets.parse_list(line, keys).octets for line in others]
    newer = sum(store.take_list(app.peers_directory, one) for one in lists)
    for one in notes:
        store.take_list(app.peers_directory, one)
    own = [app.card, *filter(None, [app.next_card])] if members else []
    new = int(store.take_own(app.peers_directory, members, own))
    new += store.take_members(app.peers_directory, members, app.card) if members else 0
    reload(app)
    click.echo(f"new: {newer} of {len(lists)} trust lists, {new} of {len(members)} signed cards")
    for card in (fleets.read_card(one, keys).card for one in members):
        click.echo(f"{card.name}: {shown.addresses(card)}")


@fleet.command
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Print the fleets of this node: members, trust list, and whether this node is a member."""
    joined = store.read(app.peers_directory)
    peers, problems = trust_store.load(app.peers_directory, app.card)
    amiss = [problem for problem in problems if problem.path.suffix in store.SUFFIXES]
    in_force = {
        one: sum(peer.fleet == one for peer in peers.values()) for one in {peer.fleet for peer in peers.values()}
    }
    if as_json:
        listed = [
            _view(one, _member(one.of(app.card), joined), in_force.get(one.fleet.name, 0))
            for one in joined.memberships.values()
        ]
        reports = [{"file": str(problem.path), "message": problem.message} for problem in amiss]
        print_json({"schema": SCHEMA, "fleets": listed, "problems": reports})
    else:
        _print_status(joined, in_force, app)
        _print_revoked(joined.memberships.values())
        for problem in amiss:
            click.echo(f"refused: {problem}", err=True)
    if amiss:
        sys.exit(FAILED)


def _view(one: Membership, member: dict[str, Any] | None, members: int) -> dict[str, Any]:
    return {
        "name": one.fleet.name,
        "public_key": one.fleet.public_key.hex(),
        "fleet": fleets.fleet_text(one.fleet),
        "words": spoken(one.fleet).split(),
        "member": member,
        "members": members,
        "list": None if one.list is None else _list_view(one, one.list),
    }


def _list_view(one: Membership, listed: TrustList) -> dict[str, Any]:
    notes = one.notes.said if one.notes else {}
    return {
        "number": listed.number,
        "date": date(listed.number),
        "revoked": sorted(key.hex() for key in listed.revoked),
        "notes": [
            {"fingerprint": key.hex(), "at": note.at, "name": note.name, "reason": note.reason}
            for key, note in notes.items()
            if key in listed.revoked
        ],
    }


def _print_revoked(memberships: Iterable[Membership]) -> None:
    """Print the revoked keys, the last one first: when, whose, why, and the first digits of the fingerprint."""
    rows = [
        (one.fleet.name, *_revocation(one.notes.said.get(key) if one.notes else None), key.hex()[:16])
        for one in memberships
        if one.list
        for key in one.list.revoked
    ]
    if rows:
        click.echo()
        print_table(("FLEET", "REVOKED", "NAME", "REASON", "FINGERPRINT"), sorted(rows, reverse=True))


def _revocation(note: Note | None) -> tuple[str, str, str]:
    return (date(note.at), note.name, note.reason) if note else ("", "", "")


def _member(own: SignedCard | None, joined: Joined) -> dict[str, Any] | None:
    if own is None:
        return None
    return {
        "since": own.since,
        "until": own.until or None,
        "standing": _own(own, joined),
        "card": cards.render(own.card),
        "signed": fleets.card_text(own),
    }


def _own(own: SignedCard, joined: Joined) -> str:
    if own.card.fingerprint.hex() in joined.revoked():
        return "revoked"
    return "ended" if joined.late(own) else "member"


def _print_status(joined: Joined, in_force: dict[str, int], app: App) -> None:
    if not joined.memberships:
        click.echo("No fleet. `meshsec fleet join FLEET` joins one.")
        return
    rows = [
        (
            one.fleet.name,
            in_force.get(one.fleet.name, 0),
            date(one.list.number) if one.list else "none",
            _age(one.list),
            len(one.list.revoked) if one.list else "",
            _own(own, joined) if (own := one.of(app.card)) else "not signed",
        )
        for one in joined.memberships.values()
    ]
    print_table(("FLEET", "PEERS", "LIST", "AGE", "REVOKED", app.card.name.upper()), rows)


def _age(listed: TrustList | None) -> str:
    """Return the age by this node's clock, which may be wrong: for people alone."""
    if listed is None:
        return ""
    days, rest = divmod(int(time.time()) - listed.number, DAY)
    return f"{days} d" if days > 0 else f"{max(rest, 0) // 60} min" if days == 0 else "in the future"


def _tell(known: Fleet, listed: TrustList | None) -> None:
    facts(
        {
            "fleet": fleets.fleet_text(known),
            "name": known.name,
            "words": spoken(known),
            "list": listed and f"{date(listed.number)}, {len(listed.revoked)} keys revoked",
        }
    )


def _sign_list(
    directory: Path,
    passphrase_stdin: bool,
    change: Callable[[frozenset[bytes]], frozenset[bytes]],
    reason: str = "",
    names: Mapping[bytes, str] | None = None,
) -> Sequence[str]:
    """Sign the next list and the notes on it: of the keys that are new with ``names`` and ``reason``. Print and return
    both.
    """
    before, known = fleet_key.trust_list(directory), _notes(directory)
    present = before.revoked if before else frozenset()
    revoked = change(present)
    key, now = options.load_key(directory, passphrase_stdin), int(time.time())
    listed = fleets.sign_list(key, now, revoked, before)
    said = {one: note for one, note in (known.said if known else {}).items() if one in revoked}
    said |= {one: Note(now, (names or {}).get(one, ""), reason) for one in revoked - present}
    notes = revocation_notes.sign(key, listed.number, said)
    fleet_key.save_list(directory, listed)
    with options.informing("the next list will not say it"):
        fleet_key.save_notes(directory, notes)
    lines = [fleets.list_text(listed), revocation_notes.text(notes)]
    for line in lines:
        click.echo(line)
    click.echo(f"list of {date(listed.number)}: {len(revoked)} keys are revoked", err=True)
    return lines


def _notes(directory: Path) -> Notes | None:
    try:
        return fleet_key.notes(directory)
    except fleet_key.FleetKeyError as error:
        options.warn(error, "what was said of the revoked keys is left out")
        return None


def _targets(text: str, names: Mapping[bytes, str]) -> dict[bytes, str]:
    """Return the keys that are meant, with the names on their cards. Raises ClickException."""
    if named := {key: name for key, name in names.items() if name == text}:
        return named
    if len(text) == _FINGERPRINT_DIGITS:
        fingerprint = _fingerprint(text)
        return {fingerprint: names.get(fingerprint, "")}
    if text.startswith("@") or text.lower().startswith(card_typos.PREFIX):
        card = cards.parse(text_of(text))
        return {card.fingerprint: card.name}
    known = ", ".join(sorted(set(names.values()))) or "none"
    raise click.ClickException(
        f"{text!r} is no card, no fingerprint, and no name of a card that was signed here; signed here: {known}"
    )


def _fingerprint(text: str) -> bytes:
    if len(text) != _FINGERPRINT_DIGITS:
        return cards.parse(text_of(text)).fingerprint
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise click.ClickException(f"{text!r} is no fingerprint: allowed are hexadecimal digits") from None


def _revoked(text: str, revoked: frozenset[bytes]) -> bytes:
    fingerprint = _fingerprint(text)
    if fingerprint not in revoked:
        known = ", ".join(sorted(key.hex() for key in revoked)) or "none"
        raise click.ClickException(f"{fingerprint.hex()} is not revoked; revoked: {known}")
    return fingerprint
