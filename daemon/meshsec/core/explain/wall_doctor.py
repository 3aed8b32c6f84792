"""What doctor says of the packets that the fail-closed rules have dropped or let pass in the clear."""

from collections.abc import Collection, Mapping

from meshsec.core.explain.findings import Check, Level

TABLES_FIX = (
    "systemctl restart meshsecd: it sets its tables again, once the program that holds or changes them is ended"
)

_MEANINGS = {
    "fleet_out": "were to begin a fleet's exchange with a peer, and not meshsecd's: an account or a container of this "
    "node tries to speak as the node",
    "spoofed": "came from outside with an address of this node: somebody in reach forges packets",
    "disguised": "had an IPv4-mapped address or a routing header, which no honest neighbour sends",
    "into_sa": "came from the mesh and were to leave through this node's SAs or its overlay: somebody in reach forges "
    "packets",
    "into_networks": "came from the mesh for a network behind this node: to open one, announce it ([routing] attached)",
    "networks_out": "were for a network of a peer, or had a source that this node does not speak for: announce the "
    "network behind this node ([routing] attached)",
    "networks_in": "had a source that the peer which sent them may not speak for, or came from a network of a peer by "
    "another way than its tunnel",
    "link_out": "were user data in the clear on a mesh interface: use the address of a peer, or name the exception in "
    "the policy's bypass",
    "link_in": "were user data in the clear from a mesh interface: nobody on the mesh is reached that way",
}
"""What the packets did that each counter of the rules counts (``core/channels/nft_rules.py``)."""


def tables(altered: Collection[str]) -> list[Check]:
    """Judge the tables that meshsecd has beside the fail-closed rules, where they differ from what it applied."""
    found = "; ".join(altered)
    return [Check("tables of networks", Level.FAIL, found, TABLES_FIX)] if altered else []


def found(dropped: Mapping[str, int]) -> list[str]:
    """Return a sentence for each counter that needs an explanation and has counted."""
    return [f"{dropped[name]} packets {meaning}" for name, meaning in _MEANINGS.items() if dropped.get(name)]
