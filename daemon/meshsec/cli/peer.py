"""``meshsec peer``: whom this node trusts."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from meshsec import files
from meshsec.adapters.files import trust_store
from meshsec.cli import cards as shown
from meshsec.cli import trusted
from meshsec.cli.app import FAILED, App, peer_names
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.output import facts, json_option, print_json, print_table
from meshsec.core.trust import card as cards
from meshsec.core.trust import fingerprint_words
from meshsec.core.trust import roster as rosters
from meshsec.core.values.model import Card, Peer

SCHEMA = "meshsec-peers-1"

_FINGERPRINT_LENGTH = 64
"""Digits; every card is longer, and every name shorter."""
_INPUT_LIMIT = 4096
"""Octets that are read of a file or of standard input."""


@click.group
def peer() -> None:
    """The nodes that this node trusts, each by its card."""


@peer.command
@click.argument("name")
@click.argument("card", nargs=-1, required=True)
@shown.networks_option
@click.pass_obj
def add(app: App, name: str, card: tuple[str, ...], networks_allowed: bool | None) -> None:
    """Trust the node whose CARD this is, under the local NAME.

    CARD is the card itself, with or without spaces, '@FILE', or '-' for standard input. Another card with the same key
    takes the place of the one that is there. A card is refused when its IPv4 address is outside of mesh_prefixes, leads
    out of the mesh, or is another's.
    """
    parsed = shown.decided(cards.parse(_card_text(" ".join(card))), networks_allowed, "meshsec peer add")

    def directly() -> dict[str, Any]:
        trust_store.add(app.peers_directory, name, parsed, app.card, trusted.around(app))
        return {"namesakes": rosters.namesakes(_peers(app).values(), name, parsed)}

    answer = _change(app, "peer_add", {"name": name, "card": cards.render(parsed)}, directly)
    click.echo(f"{name} is trusted: {shown.addresses(parsed)}")
    if parsed.networks:
        click.echo(f"It may speak for {shown.networks(parsed)}")
    _warn_of_namesakes(answer.get("namesakes", ()), name, parsed)
    click.echo(f"Compare by voice: {shown.spoken(parsed)}")


@peer.command("next")
@click.argument("name", shell_complete=peer_names)
@click.argument("card", nargs=-1, required=True)
@shown.networks_option
@click.pass_obj
def next_key(app: App, name: str, card: tuple[str, ...], networks_allowed: bool | None) -> None:
    """Trust the key whose CARD this is beside the present key of NAME, whose place it is to take.

    Both are in force, each with its address, until `meshsec peer end NAME`. CARD is given as to `peer add`.
    """
    parsed = shown.decided(cards.parse(_card_text(" ".join(card))), networks_allowed, "meshsec peer next")
    _change(
        app,
        "peer_next",
        {"name": name, "card": cards.render(parsed)},
        lambda: trust_store.add_next(app.peers_directory, name, parsed, app.card, trusted.around(app)),
    )
    click.echo(f"{name} is trusted by its next key, too: {shown.addresses(parsed)}")
    click.echo(f"Compare by voice: {shown.spoken(parsed)}")


@peer.command
@click.argument("name", shell_complete=peer_names)
@click.pass_obj
def end(app: App, name: str) -> None:
    """Trust the present key of NAME no longer: the next takes its place, and the SA of the old is closed at once."""
    _change(app, "peer_end", {"name": name}, lambda: trust_store.end(app.peers_directory, name, app.card))
    click.echo(f"{name} is trusted by its next key alone")


@peer.command
@click.argument("name", shell_complete=peer_names)
@click.pass_obj
def remove(app: App, name: str) -> None:
    """Trust NAME no longer: its SA is closed at once.

    A fleet's signature counts on: of a card that was added by hand its member stays a peer.
    """

    def directly() -> dict[str, Any]:
        trust_store.remove(app.peers_directory, name)
        still = _peers(app).get(name)
        return {"fleet": still.fleet if still else ""}

    if fleet := _change(app, "peer_remove", {"name": name}, directly).get("fleet", ""):
        click.echo(f"{name} stays a peer by the fleet {fleet}: its operator's `meshsec fleet revoke` ends that")
    else:
        click.echo(f"{name} is trusted no longer")


@peer.command
@click.argument("target", metavar="NAME|CARD|FINGERPRINT", shell_complete=peer_names)
@click.option("--reason", default="", help="Why, to be shown later.")
@click.pass_obj
def revoke(app: App, target: str, reason: str) -> None:
    """Never trust the keys of NAME again, or the one key given by its card or fingerprint: SAs are closed at once.

    A card with a revoked key is refused whenever it is added or found, until `meshsec peer unrevoke`.
    """
    if len(target) > _FINGERPRINT_LENGTH:
        target = cards.render(cards.parse(target))
    elif len(target) == _FINGERPRINT_LENGTH:
        target = target.lower()
    revoked = _change(
        app,
        "peer_revoke",
        {"target": target, "reason": reason},
        lambda: {"fingerprints": trust_store.revoke(app.peers_directory, target, reason, app.card)},
    )
    for fingerprint in revoked["fingerprints"]:
        click.echo(f"revoked: {fingerprint}")


@peer.command
@click.argument("fingerprint")
@click.pass_obj
def unrevoke(app: App, fingerprint: str) -> None:
    """Let the key with this FINGERPRINT be trusted again; `meshsec peer add` trusts it then."""
    fingerprint = fingerprint.lower()
    _change(
        app,
        "peer_unrevoke",
        {"fingerprint": fingerprint},
        lambda: trust_store.unrevoke(app.peers_directory, fingerprint),
    )
    click.echo(f"may be trusted again: {fingerprint}")


@peer.command("list")
@json_option
@click.pass_obj
def list_peers(app: App, as_json: bool) -> None:
    """List the trusted nodes, the cards that are refused and the keys that are revoked."""
    found = trusted.load_here(app)
    peers, problems = found.cards, (*found.problems, *trusted.doubts(found))
    revoked = trust_store.revocations(app.peers_directory)
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "peers": [
                    {"peer": peer.name, **shown.view(peer.card), "fleet": peer.fleet or None} for peer in peers.values()
                ],
                "problems": [{"file": str(problem.path), "message": problem.message} for problem in problems],
                "revoked": [{"fingerprint": key, "said": said} for key, said in revoked.items()],
            }
        )
    else:
        _print_peers(list(found.peers.values()))
        for fingerprint, said in revoked.items():
            click.echo(f"revoked: {fingerprint} {said}".rstrip())
        trusted.tell_problems(found)
    if problems:
        sys.exit(FAILED)


@peer.command
@click.argument("name", shell_complete=peer_names)
@json_option
@click.pass_obj
def show(app: App, name: str, as_json: bool) -> None:
    """Print the card of the trusted node NAME."""
    known = _known(app, name)
    if as_json:
        print_json({"schema": shown.SCHEMA, **shown.view(known.card)})
        return
    described = shown.described(known.card, grouped=False)
    if known.ipv4_doubt:
        described["ipv4"] = f"{known.card.ipv4} (not believed: {known.ipv4_doubt})"
    facts(described)


@peer.command
@click.argument("name", shell_complete=peer_names)
@click.argument("said", metavar="[WORD]...", nargs=-1)
@click.pass_obj
def verify(app: App, name: str, said: tuple[str, ...]) -> None:
    """Compare the key of NAME by voice.

    Without words it prints those of the card that this node has; NAME's operator reads his from `meshsec key show`.
    With the words that were heard (or the first four letters of each) it compares them.
    """
    card = _known(app, name).card
    if not said:
        click.echo(shown.spoken(card))
    elif fingerprint_words.matches(card.fingerprint, " ".join(said), shown.wordlist()):
        click.echo(f"These are the words of {name}: its key is the one on the card.")
    else:
        click.echo(f"These are NOT the words of {name}, which are: {shown.spoken(card)}", err=True)
        click.echo(
            f"Another key is behind that voice, or the card is not {name}'s: meshsec peer remove {name}", err=True
        )
        sys.exit(FAILED)


def _card_text(given: str) -> str:
    if given == "-":
        return sys.stdin.read(_INPUT_LIMIT)
    if given.startswith("@"):
        return files.read(Path(given[1:]), _INPUT_LIMIT)
    return given


def _change(app: App, method: str, params: dict[str, object], directly: Callable[[], Any]) -> Any:
    """Let meshsecd change the trust store, so that it takes effect at once, and return its answer.

    Without meshsecd ``directly`` changes the files, and what it returns is the answer.
    """
    try:
        with Client(app.socket) as client:
            return client.call(method, params)
    except DaemonAbsentError:
        answer = directly()
        click.echo("meshsecd is not running: this takes effect when it starts.", err=True)
        return answer


def _peers(app: App) -> dict[str, Peer]:
    """Return those whom the files make peers; for a change without meshsecd, which knows them."""
    return trust_store.load(app.peers_directory, app.card)[0]


def _warn_of_namesakes(namesakes: Iterable[str], name: str, card: Card) -> None:
    for other in namesakes:
        click.echo(
            f"Warning: the card names its node {card.name!r}, as does that of peer {other!r}, and their keys differ. "
            f"Compare the words by voice; if this card is another's: meshsec peer remove {name}",
            err=True,
        )


def _known(app: App, name: str) -> Peer:
    """Return the peer with its card as it is, and why its IPv4 address is not believed."""
    found = trusted.load_here(app)
    if name in found.peers:
        return replace(found.cards[name], ipv4_doubt=found.peers[name].ipv4_doubt)
    refused = next((problem for problem in found.problems if problem.path.stem == name), None)
    raise click.ClickException(
        str(refused) if refused else f"there is no peer {name!r}; known: {', '.join(found.peers) or 'none'}"
    )


def _print_peers(peers: Sequence[Peer]) -> None:
    if not peers:
        click.echo("No peers. `meshsec peer add NAME CARD` trusts one.")
        return
    by_fleet = any(one.fleet for one in peers)
    rows = (
        (
            one.name,
            one.card.address,
            one.card.ipv4,
            *([one.fleet or "card"] if by_fleet else []),
            shown.spoken(one.card),
        )
        for one in peers
    )
    print_table(("PEER", "ADDRESS", "IPV4", *(["BY"] if by_fleet else []), "WORDS"), rows)
