"""``meshsec key``: this node's own card."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from meshsec.adapters.files import gateway_store, key_store, secret_file
from meshsec.adapters.files.gateway_store import GatewayStoreError
from meshsec.cli import key_sealing
from meshsec.cli.app import App
from meshsec.cli.cards import SCHEMA, described, view
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.output import facts, json_option, print_json
from meshsec.core.config.offered_networks import offering
from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import IdentityError
from meshsec.core.values.model import Card

STATUS_SCHEMA = "meshsec-key-1"
_RESTART = (
    "restart meshsecd and meshsec-page, then olsrv2-signer, and reload the router after `meshsec export`: "
    "SAs and rules stay"
)


@click.group
def key() -> None:
    """This node's key and card."""


key.add_command(key_sealing.seal)
key.add_command(key_sealing.unseal)
key.add_command(key_sealing.open_)


@key.command
@click.option("--qr", is_flag=True, help="Draw the card as a QR code.")
@click.option("--grouped", is_flag=True, help="Write the card in groups of four, for reading aloud.")
@click.option("--networks", "with_networks", is_flag=True, help="Write on the card what this node asks to speak for.")
@json_option
@click.pass_obj
def show(app: App, qr: bool, grouped: bool, with_networks: bool, as_json: bool) -> None:
    """Print the card that other nodes add, and what follows from the key.

    With --networks it names the protected networks behind this node, and the way out if it is a gateway. Nodes that
    allow them (`meshsec peer add --networks`, `meshsec fleet sign --networks`) need no [routing] accept.
    """
    card = _with_networks(app) if with_networks else app.card
    if as_json:
        print_json({"schema": SCHEMA, **view(card)})
        return
    values = described(card, grouped=grouped)
    if qr:
        draw(str(values["card"]))
    facts(values)


@key.command
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Print the card of the present key, of the next one if the key is being changed, and whether they are sealed."""
    sealed = secret_file.is_sealed(Path(app.settings.paths.key))
    present, following = cards.render(app.card), app.next_card and cards.render(app.next_card)
    if as_json:
        print_json({"schema": STATUS_SCHEMA, "card": present, "next": following, "sealed": sealed})
        return
    facts({"card": present, "next": following, "sealed": "by this machine's TPM" if sealed else None})


@key.command("next")
@json_option
@click.pass_obj
def next_key(app: App, as_json: bool) -> None:
    """Make the key that is to take the place of the present one, and print its card.

    Both are used until `meshsec key end`; peers learn of it by `meshsec peer next`. A second run prints the card again.
    """
    if app.settings.overlay.enabled:
        raise click.ClickException("the overlay's node has one key, which cannot be changed while [overlay] is enabled")
    key_store.create_next(Path(app.settings.paths.key))
    card = app.next_card
    if card is None:
        raise click.ClickException("the next key was taken away meanwhile")
    if as_json:
        print_json({"schema": SCHEMA, **view(card)})
        return
    facts(described(card, grouped=False))
    click.echo(f"\nTo use it beside the present key, {_RESTART}.\nPeers trust it by `meshsec peer next NAME CARD`.")


@key.command
@click.option("--force", is_flag=True, help="Also with peers that are not protected by the next key yet.")
@click.pass_obj
def end(app: App, force: bool) -> None:
    """Destroy the present key: the next takes its place, and the old address ends.

    Refused while a peer that is protected by the present key is not by the next one.
    """
    if app.next_card and not force and (behind := _behind(app)):
        names = ", ".join(behind)
        raise click.ClickException(f"not protected by the next key yet: {names} (--force ends the present one anyhow)")
    key_store.end(Path(app.settings.paths.key))
    click.echo(f"The present key is the only one. To forget the old one, {_RESTART}.")


@key.command
@click.pass_obj
def cancel(app: App) -> None:
    """Destroy the next key: the present one stays."""
    key_store.cancel(Path(app.settings.paths.key))
    click.echo(f"There is no next key. To forget it, {_RESTART}.")


def _with_networks(app: App) -> Card:
    """Return this node's card with the networks that it announces by its configuration and `meshsec gateway on`."""
    try:
        return offering(app.card, app.settings, gateway_store.load(Path(app.settings.paths.gateway)))
    except GatewayStoreError as error:
        raise click.ClickException(str(error)) from error
    except IdentityError as error:
        raise click.ClickException(f"{app.config}: {error} on a card; name others in [routing] accept") from error


def _behind(app: App) -> list[str]:
    """Return the peers that would be cut off. Without meshsecd this is unknown, and is refused."""
    try:
        with Client(app.socket) as client:
            return behind(client.call("status")["peers"])
    except DaemonAbsentError:
        raise click.ClickException("meshsecd does not run, so nobody knows what the next key protects") from None


def behind(peers: Iterable[dict[str, Any]]) -> list[str]:
    """Return the peers in ``status`` that are protected by the present key and not by the next."""
    protected = {peer["name"] for peer in peers if peer["state"] == "protected"}
    by_present = {name for name in protected if not name.endswith(key_store.MARK)}
    return sorted(name for name in by_present if name + key_store.MARK not in protected)


def draw(text: str) -> None:
    """Draw a card as a QR code: upper case, for which QR has a denser alphabet."""
    draw_text(text.replace(" ", "").upper())


def draw_text(text: str) -> None:
    """Draw a text as a QR code."""
    import sys  # noqa: PLC0415

    import segno  # noqa: PLC0415 - only here

    segno.make_qr(text, error="m").terminal(out=sys.stdout, compact=True)
