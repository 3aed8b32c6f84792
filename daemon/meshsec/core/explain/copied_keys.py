"""What status and doctor say when two nodes have one key."""

from collections.abc import Sequence
from enum import StrEnum

SAME_ADDRESS = "duplicate_originator"
"""What olsrv2d reports when another router announces this node's address."""


class Own(StrEnum):
    """What shows that another node has this node's key."""

    NONE = "none"
    ANNOUNCED = "announced"
    """Its router announces this node's address. A forger of routing messages can look the same."""
    TAKEN = "taken"
    """A neighbour that does not hear this node has a link to its address."""
    PROVEN = "proven"
    """It signs with the key."""


_OWN = {
    Own.ANNOUNCED: "another node announces this node's address, so it has a copy of this node's key or of its "
    "configuration",
    Own.TAKEN: "a neighbour that does not hear this node takes another one for it, which has a copy of this node's key "
    "or of its configuration",
    Own.PROVEN: "another node has this node's key, and signs with it: was the card or the disk copied?",
}

FIX = (
    "`meshsec key show` on each node shows which have the same key; on the copy `systemctl stop meshsec.target`, "
    "remove node.key and node.pub, then `meshsec init` and `systemctl start meshsec.target`, "
    "and give its new card to the peers. Nobody meant to copy it? Then the key is in wrong hands: `meshsec peer "
    "revoke` on every peer, and a new key here (docs/guide/trust.md)"
)


def found(own: Own, doubled: Sequence[str]) -> list[str]:
    """Return a sentence for this node and one for its peers; ``doubled`` are those whose key two nodes have."""
    sentences = [_OWN[own]] if own in _OWN else []
    if doubled:
        sentences.append(
            f"two nodes have the key of {', '.join(doubled)}, and both sign with it: was the card or the disk copied? "
            "Packets reach the nearer of them"
        )
    return sentences
