"""How cards are shown, by ``key`` and by ``peer``."""

from dataclasses import replace

import click
from mnemonic import Mnemonic

from meshsec.core.trust import card as cards
from meshsec.core.trust import fingerprint_words
from meshsec.core.values.model import Card

SCHEMA = "meshsec-card-1"


def wordlist() -> list[str]:
    """Return the BIP-39 English words."""
    return list(Mnemonic("english").wordlist)


def spoken(card: Card) -> str:
    """Return the words that two people compare by voice."""
    return " ".join(fingerprint_words.spoken(card.fingerprint, wordlist()))


def addresses(card: Card) -> str:
    """Every address that the card claims: the IPv6 one follows from its key, the IPv4 one does not."""
    return f"{card.address} and {card.ipv4}" if card.ipv4 else str(card.address)


def networks(card: Card) -> str:
    """Return what the card asks to speak for."""
    return ", ".join(map(str, card.networks))


def decided(card: Card, allowed: bool | None, command: str) -> Card:
    """Return the card with its networks if they are allowed, else without. Raises UsageError while nobody decided."""
    if card.networks and allowed is None:
        raise click.UsageError(
            f"the card asks to speak for {networks(card)}: user data for that would go to its node. "
            f"`{command} --networks` allows it, --no-networks trusts the node alone"
        )
    return card if allowed else replace(card, networks=())


networks_option = click.option(
    "--networks/--no-networks",
    "networks_allowed",
    default=None,
    help="Whether the node may speak for the networks on its card.",
)


def view(card: Card) -> dict[str, object]:
    """Return a card as JSON (docs/reference/schema/meshsec-card-1.json)."""
    return {
        "card": cards.render(card),
        "name": card.name,
        "address": str(card.address),
        "locator": str(card.locator),
        "ipv4": None if card.ipv4 is None else str(card.ipv4),
        "by_secret": card.by_secret,
        "networks": [str(one) for one in card.networks],
        "public_key": card.public_key.hex(),
        "fingerprint": card.fingerprint.hex(),
        "words": spoken(card).split(),
    }


def described(card: Card, *, grouped: bool) -> dict[str, object]:
    """Return a card as named values for people."""
    text = cards.render(card)
    return {
        "card": cards.grouped(text) if grouped else text,
        "name": card.name,
        "address": card.address,
        "locator": card.locator,
        "ipv4": card.ipv4,
        **({"networks": networks(card)} if card.networks else {}),
        "auth": "the pair's secret" if card.by_secret else "signature",
        "words": spoken(card),
        "fingerprint": card.fingerprint.hex(),
    }
