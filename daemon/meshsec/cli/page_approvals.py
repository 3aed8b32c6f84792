"""Sign what a login of the page approves, for as long as `meshsec page login --approve` runs (ADR 0081).

The fleet's key is in this process alone: the page and meshsecd get what it has signed.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files import fleet_key
from meshsec.cli import cards as shown
from meshsec.cli import fleet_options as options
from meshsec.cli.client import Client
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.values.model import Card

MOST = 64
"""Largest number of nodes that one command signs. An attacker in the page's place must not fill the fleet (4096)."""

Said = dict[str, str]
"""The command's answer about the card that meshsecd wanted to be signed."""


def serve(client: Client, signer: str, directory: Path, key: Ed25519PrivateKey) -> Iterator[str]:
    """Sign until the login has ended, ``MOST`` nodes at most. Yield a line for each node. Raises DaemonError."""
    count = 0
    said: Said = {}
    card: Card | None = None
    while True:
        wanted = client.call("page_wanted", {"signer": signer, **said})
        if card is not None:
            refusal = said.get("refusal") or wanted["failure"]
            count += not refusal
            yield _line(card, refusal)
        if count == MOST:
            yield f"{MOST} nodes are members now: run the command again for more."
        if wanted["ended"] or count == MOST:
            return
        card = None if wanted["card"] is None else cards.parse(wanted["card"])
        said = {} if card is None else _signed(card, directory, lambda: key)


def _signed(card: Card, directory: Path, load: Callable[[], Ed25519PrivateKey]) -> Said:
    """Return the signed card, or why it is not signed: meshsecd asks for cards without networks, and others are none.

    A person decides about networks (ADR 0062), whom this command does not ask.
    """
    wanted = {"card": cards.render(card)}
    if card.networks:
        asked = ", ".join(map(str, card.networks))
        return wanted | {"refusal": f"the card asks to speak for {asked}: `meshsec fleet approve` asks whether it may"}
    try:
        return wanted | {"signed": fleets.card_text(options.sign(directory, load, card))}
    except (click.ClickException, fleet_key.FleetKeyError) as error:
        return wanted | {"refusal": str(error)}


def _line(card: Card, refusal: str) -> str:
    now = datetime.now().astimezone().strftime("%H:%M:%S")
    if refusal:
        return f"{now} {card.name} is not approved: {refusal}"
    return f"{now} {card.name} is a member: {shown.spoken(card)}"
