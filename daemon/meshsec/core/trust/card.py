"""The text form of a card (docs/reference/card.md): bech32m (BIP-350) with the prefix ``meshsec``."""

from ipaddress import IPv4Address

from bech32m.codecs import CHARSET, DecodeError, Encoding, bech32_encode, convertbits

from meshsec.core.trust import card_networks
from meshsec.core.trust.card_typos import CHECKSUM_LENGTH, PREFIX, Damage, Slip, find, foreign, is_intact
from meshsec.core.trust.identity import KEY_LENGTH, IdentityError, make_card
from meshsec.core.values.model import Card

VERSION = 1
LONGEST = 237
"""Characters of a card with an IPv4 address, the most networks, and a name of 32 characters."""
GROUP = 4

_HAS_IPV4 = 0x01
_BY_SECRET = 0x02
_HAS_NETWORKS = 0x04
_FLAGS = _HAS_IPV4 | _BY_SECRET | _HAS_NETWORKS
_SHORTEST = 70
_TEXT_LIMIT = 1024
"""Characters of input, with its spaces, that are looked at."""


class CardError(ValueError):
    """A text that is no card. ``damage`` is the slip that explains it, where one does."""

    def __init__(self, message: str, damage: Damage | None = None) -> None:
        super().__init__(message)
        self.damage = damage


def render(card: Card) -> str:
    """Return the card as one line of lower-case characters."""
    ipv4 = b"" if card.ipv4 is None else card.ipv4.packed
    networks = card_networks.encode(card.networks) if card.networks else b""
    flags = (_HAS_IPV4 if ipv4 else 0) | (_BY_SECRET if card.by_secret else 0) | (_HAS_NETWORKS if networks else 0)
    octets = bytes([VERSION, flags]) + card.public_key + ipv4 + networks + card.name.encode("ascii")
    return bech32_encode(PREFIX[:-1], bytes(convertbits(octets, 8, 5)), Encoding.BECH32M)


def grouped(text: str) -> str:
    """Return a card in groups of four characters, for reading aloud; ``parse`` takes this form too."""
    return " ".join(text[start : start + GROUP] for start in range(0, len(text), GROUP))


def parse(text: str) -> Card:
    """Return the card that ``text`` says, whatever its case, spaces, hyphens and line breaks. Raises CardError."""
    if len(text) > _TEXT_LIMIT:
        raise CardError(f"the text has {len(text)} characters; a card has at most {LONGEST}")
    plain = "".join(text.replace("-", " ").split()).lower()
    if len(plain) > LONGEST or not is_intact(plain):
        raise _explained(plain)
    return _decoded(plain)


def _decoded(plain: str) -> Card:
    symbols = bytes(CHARSET.index(character) for character in plain[len(PREFIX) : -CHECKSUM_LENGTH])
    try:
        octets = bytes(convertbits(symbols, 5, 8, False))
    except DecodeError:
        raise CardError("the card's last character carries bits that belong to no octet") from None
    if not octets or octets[0] != VERSION:
        raise CardError(f"the card has version {octets[0] if octets else 'none'}; this meshsec reads version {VERSION}")
    return _card_of(octets)


def _card_of(octets: bytes) -> Card:
    fixed = 2 + KEY_LENGTH
    flags = octets[1] if len(octets) > 1 else 0
    if flags & ~_FLAGS:
        raise CardError(f"the card's flags are {flags:#04x}; allowed: 0x00 to {_FLAGS:#04x}")
    name_at = fixed + 4 if flags & _HAS_IPV4 else fixed
    if len(octets) <= name_at:
        raise CardError(
            f"the card ends after octet {len(octets)}; with its flags the name begins after octet {name_at}"
        )
    ipv4 = IPv4Address(octets[fixed:name_at]) if flags & _HAS_IPV4 else None
    try:
        networks, taken = card_networks.decode(octets[name_at:]) if flags & _HAS_NETWORKS else ((), 0)
        name = octets[name_at + taken :].decode("ascii", "backslashreplace")
        return make_card(name, octets[2:fixed], ipv4, by_secret=bool(flags & _BY_SECRET), networks=networks)
    except card_networks.NetworksError as error:
        raise CardError(f"the card's networks: {error}") from None
    except IdentityError as error:
        raise CardError(str(error)) from None


def _explained(plain: str) -> CardError:
    if not plain:
        return CardError("the card is empty")
    damage = None if len(plain) > LONGEST + 1 else find(plain)
    if damage:
        return CardError(_told(damage, plain), damage)
    if not plain.startswith(PREFIX):
        return CardError(f"the text begins with {plain[: len(PREFIX)]!r}; a card begins with {PREFIX!r}")
    if not _SHORTEST <= len(plain) <= LONGEST:
        return CardError(f"the card has {len(plain)} characters; allowed: {_SHORTEST} to {LONGEST}")
    unknown = [at + len(PREFIX) for at in foreign(plain[len(PREFIX) :])]
    if unknown:
        listed = ", ".join(f"{at + 1} ({plain[at]!r})" for at in unknown)
        return CardError(f"these characters never occur in a card: {listed}; allowed: {CHARSET}")
    return CardError("the checksum does not hold and more than one character is wrong: compare it group by group")


def _told(damage: Damage, plain: str) -> str:
    at = damage.position
    first = (at - 1) // GROUP * GROUP
    where = f"character {at} (group {first // GROUP + 1}, {plain[first : first + GROUP]!r})"
    match damage.slip:
        case Slip.WRONG:
            return f"{where} is {damage.found!r}, likely {damage.likely!r}"
        case Slip.SWAPPED:
            return f"{where} and the next are {damage.found!r}, likely swapped: {damage.likely!r}"
        case Slip.MISSING:
            place = f"before {plain[at - 1 : at - 1 + GROUP]!r}" if at <= len(plain) else "at the end"
            return f"character {at} is missing {place}, likely {damage.likely!r}"
        case Slip.EXTRA:
            return f"{where} is {damage.found!r}, likely one too many"
