"""``meshsec fleet requests``, ``approve`` and ``refuse``: nodes that ask over the mesh to join (ADR 0070)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from meshsec.adapters.files import fleet_key
from meshsec.cli import cards as shown
from meshsec.cli import fleet_options as options
from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.cli.output import duration, json_option, print_json, print_prose, print_table
from meshsec.cli.up_answers import is_at_a_terminal
from meshsec.core.trust import card as cards
from meshsec.core.trust import card_typos, fingerprint_words, fleets
from meshsec.core.trust.fingerprint_words import WORD_COUNT
from meshsec.core.values.model import Card

Request = Mapping[str, Any]
"""One request as meshsecd shows it (docs/reference/schema/meshsec-join-requests-1.json)."""


@click.command
@json_option
@click.pass_obj
def requests(app: App, as_json: bool) -> None:
    """List the nodes that ask to join, with the six words of each.

    The node's operator reads the same words from `meshsec status` there.
    """
    view = _view(app)
    if as_json:
        print_json(view)
        return
    if not view["requests"]:
        click.echo("No node asks to join. A new one asks with `meshsec up --join FLEET`, and repeats it every 30 s.")
        return
    rows = ((one["name"], " ".join(one["words"]), duration(one["waiting"])) for one in view["requests"])
    print_table(("NAME", "SIX WORDS", "SINCE"), rows, {"NAME"})
    for one in view["requests"]:
        for sentence in _cautions(one):
            print_prose(sentence, "yellow")
    if any(one["address"] == str(app.card.address) for one in view["requests"]):
        print_prose("Approve this node first: only a member hears the requests of others.", "yellow")
    click.echo("`meshsec fleet approve WORDS` lets the node join whose operator reads them out.")


@click.command
@click.argument("target", metavar="WORDS|NAME|CARD", nargs=-1, required=True)
@shown.networks_option
@options.passphrase
@options.directory
@click.pass_obj
def approve(
    app: App, target: tuple[str, ...], networks_allowed: bool | None, directory: Path, passphrase_stdin: bool
) -> None:
    """Sign the card of a node that asks to join, and let all members know.

    WORDS are the six words that the node's operator reads out, or the first four letters of each. For a NAME it asks
    whether the words are the same. CARD is the node's card, for example scanned from its QR code; the node need not
    have asked.
    """
    fleet = fleet_key.fleet(directory)
    said = " ".join(target)
    card = _named(_of_fleet(_view(app), fleet.public_key), said)
    with Client(app.socket) as client:
        client.call("join_check", {"card": cards.render(card)})
    _confirm(card, said)
    card = shown.decided(card, networks_allowed, "meshsec fleet approve")
    signed = options.signed_card(directory, passphrase_stdin, card)
    with Client(app.socket) as client:
        client.call("join_approve", {"signed": fleets.card_text(signed)})
    click.echo(f"{card.name} is a member of {fleet.name}: {shown.addresses(card)}")
    if card.networks:
        click.echo(f"{card.name} may speak for {shown.networks(card)}")


@click.command
@click.argument("target", metavar="WORDS|NAME|CARD", nargs=-1, required=True)
@click.pass_obj
def refuse(app: App, target: tuple[str, ...]) -> None:
    """Show the request of a node no more, until meshsecd restarts or the node is approved."""
    card = _named(_view(app)["requests"], " ".join(target))
    with Client(app.socket) as client:
        client.call("join_refuse", {"fingerprint": card.fingerprint.hex()})
    click.echo(f"{card.name} is refused: {shown.spoken(card)}")


def _view(app: App) -> dict[str, Any]:
    with Client(app.socket) as client:
        view: dict[str, Any] = client.call("join_requests")
    return view


def _of_fleet(view: Mapping[str, Any], key: bytes) -> list[Request]:
    return [one for one in view["requests"] if one["fleet_key"] == key.hex()]


def _confirm(card: Card, target: str) -> None:
    """Let a person who knows the words confirm a name, which anybody can take."""
    if len(target.split()) > 1 or _is_card(target):
        return
    if not is_at_a_terminal():
        raise click.UsageError(
            f"without a terminal nobody can be asked whether the words are right: {shown.spoken(card)}; "
            f"{_by_words(target)}"
        )
    click.confirm(f"{shown.spoken(card)}\nAre these the six words that the operator of {target} reads out?", abort=True)


def _named(waiting: Sequence[Request], target: str) -> Card:
    """Return the card of the request that is meant. Raises ClickException."""
    if _is_card(target):
        return cards.parse(target)
    if len(target.split()) > 1:
        return _by_six_words(waiting, target)
    found = [one for one in waiting if one["name"] == target]
    if len(found) > 1:
        raise click.ClickException(f"{len(found)} nodes with the name {target!r} ask to join; {_by_words(target)}")
    if not found:
        known = ", ".join(sorted(one["name"] for one in waiting)) or "none"
        raise click.ClickException(f"no node {target!r} asks to join this fleet; those that do: {known}. {_AGAIN}")
    return cards.parse(found[0]["card"])


def _by_six_words(waiting: Sequence[Request], said: str) -> Card:
    known = (cards.parse(one["card"]) for one in waiting)
    wordlist = shown.wordlist()
    card = next((one for one in known if fingerprint_words.matches(one.fingerprint, said, wordlist)), None)
    if card is None:
        raise click.ClickException(f"no node with these {WORD_COUNT} words asks to join this fleet. {_AGAIN}")
    return card


def _is_card(target: str) -> bool:
    return target.lower().startswith(card_typos.PREFIX)


def _by_words(name: str) -> str:
    return f"`meshsec fleet approve` with the six words that the operator of {name} reads out"


def _cautions(one: Request) -> list[str]:
    asked = [f"{one['name']} asks to speak for {', '.join(one['networks'])}."] if one["networks"] else []
    if not one["namesake"]:
        return asked
    same = f"{one['name']} ({one['address']}) has the name of another node, {one['namesake']}, and another key."
    return [same, *asked]


_AGAIN = "A node repeats its request every 30 s; with its card, `meshsec fleet approve CARD` needs none"
