"""What status and doctor say when two nodes have one key."""

from collections.abc import Iterable, Sequence

SAME_ADDRESS = "duplicate_originator"
"""What olsrv2d reports when another router announces this node's address."""

_OWN = "another node announces this node's address, so it has a copy of this node's key or of its configuration"

FIX = (
    "`meshsec key show` on each node shows which have the same key; on the copy `systemctl stop meshsec.target`, "
    "remove node.key and node.pub, then `meshsec init` and `systemctl start meshsec.target`, "
    "and give its new card to the peers. Nobody meant to copy it? Then the key is in wrong hands: `meshsec peer "
    "revoke` on every peer, and a new key here (docs/guide/trust.md)"
)


def found(router_warnings: Iterable[str], doubled: Sequence[str]) -> list[str]:
    """Return a sentence for this node and one for its peers; ``doubled`` are those that seem to be two nodes each."""
    sentences = [_OWN] if SAME_ADDRESS in router_warnings else []
    if doubled:
        sentences.append(
            f"{', '.join(doubled)} asks for an SA again and again while one is established: two nodes have its key, or "
            "somebody forges its address"
        )
    return sentences
