"""What the commands of a fleet's operator share: where the fleet's key is, and signing with it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec import files
from meshsec.adapters.files import fleet_key
from meshsec.cli import cards as shown
from meshsec.core.trust import fingerprint_words, fleets
from meshsec.core.trust.fleets import Fleet, SignedCard
from meshsec.core.values.model import Card

DAY = 86400
_PASSPHRASE_LIMIT = 4096
"""Characters."""

directory = click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="MESHSEC_FLEET",
    default=Path("~/.meshsec-fleet"),
    show_default=True,
    show_envvar=True,
    callback=lambda _ctx, _param, value: value.expanduser(),
    help="Where the fleet's key is.",
)
passphrase = click.option(
    "--passphrase-stdin", is_flag=True, help="Read the key's passphrase from standard input instead of asking."
)


def load_key(path: Path, passphrase_stdin: bool) -> Ed25519PrivateKey:
    """Return the fleet's key, after asking for its passphrase if it has one. Raises FleetKeyError."""
    asked = partial(click.prompt, "Passphrase", hide_input=True, err=True)
    return fleet_key.load(path, _passphrase_line if passphrase_stdin else asked)


def signed_card(path: Path, passphrase_stdin: bool, card: Card, days: int = 0) -> SignedCard:
    """Ask for the key's passphrase if it has one, and sign a card for ``days``, or for ever. Raises ClickException."""
    return sign(path, partial(load_key, path, passphrase_stdin), card, days)


def sign(path: Path, load: Callable[[], Ed25519PrivateKey], card: Card, days: int = 0) -> SignedCard:
    """Sign a card with the key that ``load`` gives. Raises ClickException if the card's key is revoked."""
    listed = fleet_key.trust_list(path)
    if listed and card.fingerprint in listed.revoked:
        raise click.ClickException(f"that key is revoked: `meshsec fleet unrevoke {card.fingerprint.hex()}`")
    now = int(time.time())
    signed = fleets.sign_card(load(), card, now, now + days * DAY if days else 0)
    with informing("the card is signed, but not to be revoked by its name"):
        fleet_key.remember_signed(path, card)
    return signed


@contextmanager
def informing(without: str) -> Iterator[None]:
    """Warn and go on if a file fails that only informs: what is signed counts without it."""
    try:
        yield
    except fleet_key.FleetKeyError as error:
        warn(error, without)


def warn(error: fleet_key.FleetKeyError, without: str) -> None:
    """Say on standard error what is missing without a file."""
    click.echo(f"warning: {error}: {without}", err=True)


def spoken(known: Fleet) -> str:
    """Return the words by which two people compare the key of a fleet."""
    return " ".join(fingerprint_words.spoken(known.fingerprint, shown.wordlist()))


def wanted(text: str) -> Fleet | bytes:
    """Return the fleet whose card a text is, or what its six words say of the fleet's key.

    Raises FleetError or WordsError.
    """
    text = text_of(text)
    if len(text.split()) > 1:
        return fingerprint_words.said_octets(text, shown.wordlist())
    return fleets.parse_fleet(text)


def text_of(given: str) -> str:
    """Return an argument that is a text, '@FILE', or '-' for standard input."""
    limit = fleets.TEXT_MAX + fleets.MEMBERS_MAX * 512
    if given == "-":
        return sys.stdin.read(limit)
    return files.read(Path(given[1:]), limit) if given.startswith("@") else given


def _passphrase_line() -> str:
    return sys.stdin.readline(_PASSPHRASE_LIMIT).rstrip("\n")
