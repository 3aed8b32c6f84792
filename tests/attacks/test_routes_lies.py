"""A stranger who lies about links, addresses and networks moves no route of a node (docs/explanation/security.md)."""

import json

from tests.attacks.routing import Stranger, under_attack
from tests.lab.forge.rfc5444 import attached, edge
from tests.lab.node.routers import Mesh


def _lead_to(mesh: Mesh) -> dict[str, str]:
    """Return where a's routes to its peers lead."""
    peers = mesh["b"].destinations | mesh["c"].destinations
    return {destination: hop for destination, hop in mesh["a"].kernel.next_hops().items() if destination in peers}


def _claim_all(mesh: Mesh, stranger: Stranger) -> None:
    """Send two packets in each family: every peer is m's neighbour, his own address and his attached network."""
    for version in (4, 6):
        peers = [stranger.own(mesh[name])[version] for name in "bc"]
        length = {4: 32, 6: 128}[version]
        stranger.send(version, stranger.hello(version, *peers))
        stranger.send(version, stranger.tc(version, *(edge(peer) for peer in peers)))
        stranger.send(version, stranger.hello(version, others=tuple(peers)))
        stranger.send(version, stranger.tc(version, *(attached(f"{peer}/{length}") for peer in peers)))
        stranger.send(version, stranger.hello(version, *peers))
        stranger.send(version, stranger.tc(version, *(edge(peer) for peer in peers)))


def test_claimed_links_and_addresses_do_not_cut_a_node_from_its_peers() -> None:
    with under_attack() as (mesh, stranger):
        before = _lead_to(mesh)
        assert set(before) == mesh["b"].destinations | mesh["c"].destinations
        _claim_all(mesh, stranger)
        stranger.wait_believed()
        assert _lead_to(mesh) == before
        assert mesh["a"].reaches(mesh["c"])


def test_a_liar_is_forgotten_within_seconds_although_he_asked_for_45_days() -> None:
    with under_attack() as (mesh, stranger):
        _claim_all(mesh, stranger)
        stranger.wait_believed()
        stranger.wait_forgotten(90)
        assert mesh["a"].reaches(mesh["c"])


NETWORKS = ("0.0.0.0/0", "192.168.7.128/25", "192.168.7.9/32", "::/0", "2001:db8:7::/64")
HOST = "203.0.113.9"
"""A host in the Internet, which m calls his neighbour."""
CLAIMED = {*NETWORKS, f"{HOST}/32"}


def _give_lan(mesh: Mesh) -> None:
    """Give a an Ethernet with a network of its own, and a default route over it."""
    a = mesh["a"]
    a.ip("link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
    a.ip("link", "set", "lan1", "up")
    a.ip("link", "set", "lan0", "up")
    a.ip("address", "add", "192.168.7.1/24", "dev", "lan0")
    a.ip("route", "add", "default", "via", "192.168.7.254", "metric", "1024")


def _claim_networks(stranger: Stranger) -> None:
    """Announce as m the default routes, a part of a's own network, and hosts that are not of the mesh."""
    for version in (4, 6):
        networks = (attached(prefix) for prefix in NETWORKS if (":" in prefix) is (version == 6))
        hosts = [HOST] if version == 4 else []
        stranger.send(version, stranger.hello(version, *hosts))
        stranger.send(version, stranger.tc(version, *networks, *map(edge, hosts)))
    known = {f'["{prefix}", "{stranger.own(stranger.self)[6 if ":" in prefix else 4]}"]' for prefix in NETWORKS}
    stranger.victim.wait_for("m's networks", lambda: known <= set(stranger.victim.tables().tables["attached"]), 60)
    stranger.wait_believed()


def _way(mesh: Mesh, destination: str) -> str:
    """Return the interface over which a sends."""
    return str(json.loads(mesh["a"].ip("-j", "route", "get", destination).stdout)[0]["dev"])


def test_a_strangers_networks_are_not_taken() -> None:
    with under_attack() as (mesh, stranger):
        _give_lan(mesh)
        _claim_networks(stranger)
        assert not CLAIMED & mesh["a"].kernel.destinations()
        assert [_way(mesh, one) for one in ("192.168.7.9", "192.168.7.129", HOST)] == ["lan0"] * 3


def test_a_named_network_is_accepted_and_comes_after_ones_own() -> None:
    entries = ", ".join(
        f'{{ prefix = "{prefix}", from = ["{"fd77::4" if ":" in prefix else "10.77.0.4"}"] }}' for prefix in NETWORKS
    )
    with under_attack({"a": f"accept.network = [{entries}]"}) as (mesh, stranger):
        _give_lan(mesh)
        _claim_networks(stranger)
        taken = {"0.0.0.0/0", "::/0", "2001:db8:7::/64"}
        mesh["a"].wait_for("what was named", lambda: CLAIMED & mesh["a"].kernel.destinations() == taken, 60)
        assert _way(mesh, HOST) == "lan0", "its own default route is the better one"
        mesh["a"].ip("route", "del", "default", "metric", "1024")
        assert _way(mesh, HOST) == "mesh-m"
        assert _way(mesh, "192.168.7.129") == "lan0"
