"""The operator of a fleet in the lab."""

import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets
from meshsec.core.trust.fleets import Fleet, SignedCard, TrustList
from tests.lab.node.node import Node


class Office:
    """A fleet's operator: the fleet's key, and what is signed with it."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.fleet = Fleet("rescue", self.key.public_key().public_bytes_raw())

    def sign(self, node: Node) -> SignedCard:
        """Sign a node's card."""
        return fleets.sign_card(self.key, cards.parse(node.card), int(time.time()))

    def sign_next(self, card: str) -> SignedCard:
        """Sign a node's next card. Its time is later than the present card's, at any resolution of the clock."""
        return fleets.sign_card(self.key, cards.parse(card), int(time.time()) + 1)

    def list_of(self, number: int, *revoked: bytes) -> TrustList:
        """Sign a trust list with a number of the test's choice, which revokes these fingerprints."""
        return fleets.sign_list(self.key, number, set(revoked), None)

    def revoke(self, node: Node) -> str:
        """Return the text of a trust list that revokes a node's key."""
        revoked = {cards.parse(node.card).fingerprint}
        return fleets.list_text(fleets.sign_list(self.key, int(time.time()), revoked, None))
