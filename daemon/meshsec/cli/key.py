"""``meshsec key``: this node's own card."""

import click

from meshsec.cli.app import App
from meshsec.cli.cards import SCHEMA, described, view
from meshsec.cli.output import facts, json_option, print_json


@click.group
def key() -> None:
    """This node's key and card."""


@key.command
@click.option("--qr", is_flag=True, help="Draw the card as a QR code.")
@click.option("--grouped", is_flag=True, help="Write the card in groups of four, for reading aloud.")
@json_option
@click.pass_obj
def show(app: App, qr: bool, grouped: bool, as_json: bool) -> None:
    """Print the card that other nodes add, and what follows from the key."""
    if as_json:
        print_json({"schema": SCHEMA, **view(app.card)})
        return
    values = described(app.card, grouped=grouped)
    if qr:
        draw(str(values["card"]))
    facts(values)


def draw(text: str) -> None:
    """Draw a card as a QR code: upper case, for which QR has a denser alphabet."""
    import sys  # noqa: PLC0415

    import segno  # noqa: PLC0415 - only here

    segno.make_qr(text.replace(" ", "").upper(), error="m").terminal(out=sys.stdout, compact=True)
