"""``meshsec fleet join`` and ``leave``: whose word this node takes. ``join-file``: what a new node is given for it."""

from io import BytesIO
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import fleet_key
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.cli import cards as shown
from meshsec.cli import fleet_options as options
from meshsec.cli.app import App
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.fleet_options import spoken, text_of
from meshsec.core.trust import fingerprint_words, fleets
from meshsec.core.trust.fingerprint_words import first_octets
from meshsec.core.trust.fleets import Fleet

JOIN_FILE = "meshsec.join"
"""In the folder ``meshsec`` of an image's first partition (docs/guide/vehicle-image.md)."""
_DOTS = 8
"""Width of a module of the QR code, so that a phone reads it from a screen."""


@click.command
@click.argument("fleet_card", metavar="FLEET|WORDS")
@click.argument("signed", metavar="[SIGNED CARD]", default="")
@click.option("--first", is_flag=True, help="Refuse where this node has another fleet already.")
@click.pass_obj
def join(app: App, fleet_card: str, signed: str, *, first: bool) -> None:
    """Take the word of FLEET (`meshsec fleet show`) for who is a peer.

    Without a signed card this node asks the fleet's members over the mesh, until its operator approves it (`meshsec
    fleet approve`). Instead of the fleet's card, its six words in quotes suffice: members give the rest.

    With this node's own card as the fleet has signed it, the others learn it from this node. Each may be '@FILE', or
    '-' for standard input. A second time replaces the signed card; that of a next key (`meshsec key next`) is
    added to it.
    """
    joined = options.wanted(fleet_card)
    own = [app.card, *([app.next_card] if app.next_card else [])]
    if first:
        _refuse_second(app, joined)
    if isinstance(joined, bytes):
        if signed:
            raise click.UsageError("a signed card needs the fleet's card: `meshsec fleet join FLEET SIGNED CARD`")
        store.seek(app.peers_directory, joined)
        click.echo("This node looks for the fleet with these words over the mesh, and asks it")
    else:
        store.join(app.peers_directory, joined, text_of(signed) if signed else "", own)
        click.echo(f"{joined.name} is joined: who is signed by it is a peer, who is revoked by it is none")
        click.echo(f"Compare by voice: {spoken(joined)}")
    reload(app)
    if not signed:
        click.echo(f"Read these six words to its operator, who approves this node: {shown.spoken(app.card)}")


def _refuse_second(app: App, wanted: Fleet | bytes) -> None:
    """Refuse a fleet if there is another one that this node has joined or looks for. Raises ClickException."""
    said = first_octets(wanted.fingerprint) if isinstance(wanted, Fleet) else wanted
    known = store.read(app.peers_directory)
    for one in known.memberships.values():
        if first_octets(one.fleet.fingerprint) != said:
            name = one.fleet.name
            raise click.ClickException(
                f"this node has the fleet {name} already; `meshsec fleet leave {name}` ends that"
            )
    if known.sought not in {b"", said}:
        words = " ".join(fingerprint_words.spoken(known.sought, shown.wordlist()))
        raise click.ClickException(f"this node looks for another fleet; `meshsec fleet leave '{words}'` ends that")


@click.command(name="join-file")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@options.directory
def join_file(folder: Path, directory: Path) -> None:
    """Write what lets a new node ask to join: meshsec.join and, as a QR code, meshsec.join.png.

    FOLDER is the folder meshsec on the first partition of the node's disk. An image reads either file at its first
    boot. Nothing in them is secret: the fleet's operator approves the node (`meshsec fleet approve`).
    """
    import segno  # noqa: PLC0415 - only here

    text, picture = fleets.fleet_text(fleet_key.fleet(directory)), BytesIO()
    segno.make_qr(text, error="m").save(picture, kind="png", scale=_DOTS)
    for name, content in {JOIN_FILE: f"{text}\n".encode(), f"{JOIN_FILE}.png": picture.getvalue()}.items():
        files.write(folder / name, content, 0o644)
        click.echo(f"{folder / name}: written")


@click.command
@click.argument("name", metavar="NAME|WORDS")
@click.pass_obj
def leave(app: App, name: str) -> None:
    """Take the word of the fleet NAME no longer: its members are no peers, its revocations are forgotten.

    With the WORDS in quotes by which a fleet is looked for, it is looked for no more.
    """
    if len(name.split()) > 1:
        _end_search(app, name)
    else:
        store.leave(app.peers_directory, name)
        click.echo(f"{name} is left")
    reload(app)


def _end_search(app: App, words: str) -> None:
    if not store.end_search(app.peers_directory, fingerprint_words.said_octets(words, shown.wordlist())):
        raise click.ClickException("no fleet with these words is looked for; `meshsec status` says which is")
    click.echo("The fleet with these words is looked for no more")


def reload(app: App) -> None:
    """Let meshsecd see what was changed. Without it that takes effect when it starts."""
    try:
        with Client(app.socket) as client:
            client.call("reload")
    except DaemonAbsentError:
        click.echo("meshsecd is not running: this takes effect when it starts.", err=True)
