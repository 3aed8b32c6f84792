"""What meshsec left in a kernel is found, and what others have beside it is not."""

import subprocess
from ipaddress import ip_address

import pytest

from meshsec.adapters.kernel import leftovers
from meshsec.adapters.kernel.leftovers import LeftoversError
from meshsec.adapters.kernel.nftables import BLOCK_PRIORITY
from namespaces import inside, ip, needs_root, new_namespace

__all__ = ["inside", "new_namespace"]

pytestmark = [needs_root, pytest.mark.usefixtures("inside")]

PROTOCOLS = (100, *leftovers.PROTOCOLS)
OWN = frozenset(map(ip_address, ("fc12::1", "fd12::1", "10.77.0.1")))


def nft(*arguments: str) -> None:
    subprocess.run(["nft", *arguments], check=True)


def test_routes_and_rules_are_known_by_their_protocol() -> None:
    ip("route", "add", "10.67.0.0/24", "dev", "lo", "proto", "static")
    ip("rule", "add", "from", "10.66.0.1", "lookup", "66", "priority", "300")
    assert leftovers.routes(PROTOCOLS) == leftovers.rules(PROTOCOLS) == ()
    ip("route", "add", "10.9.0.0/24", "dev", "lo", "proto", "100", "table", "7")
    ip("-6", "route", "add", "unreachable", "fd77::/64", "proto", "103")
    ip("-6", "rule", "add", "iif", "lo", "lookup", "222", "priority", "217", "protocol", "102")
    assert leftovers.routes(PROTOCOLS) == (("-4", 100), ("-6", 103))
    assert leftovers.rules(PROTOCOLS) == (("-6", 102),)
    assert leftovers.routes((101,)) == ()


def test_addresses_are_those_of_the_node() -> None:
    ip("link", "add", "mesh0", "type", "bridge")
    ip("address", "add", "10.66.0.1/32", "dev", "lo")
    ip("address", "add", "fc99::1/128", "dev", "lo")
    ip("address", "add", "10.77.0.1/24", "dev", "mesh0")
    assert leftovers.addresses(OWN, ("mesh0",)) == (), "the network is not meshsec's"
    ip("address", "add", "10.77.0.1/32", "dev", "lo")
    ip("address", "add", "fc12::1/128", "dev", "lo")
    ip("address", "add", "fd4d:534c::7/128", "dev", "lo")
    found = {("lo", "10.77.0.1/32"), ("lo", "fc12::1/128"), ("lo", "fd4d:534c::7/128")}
    assert set(leftovers.addresses(OWN, ("mesh0",))) == found


def test_the_ipv4_address_of_a_mesh_interface_has_no_network() -> None:
    for name in ("mesh0", "eth0"):
        ip("link", "add", name, "type", "bridge")
        ip("address", "add", "10.77.0.1/32", "dev", name, "noprefixroute")
    assert leftovers.addresses(OWN, ("mesh0",)) == (("mesh0", "10.77.0.1/32"),)


def test_devices_are_known_by_name_and_kind() -> None:
    ip("link", "add", "meshsec-clients", "type", "bridge")
    ip("link", "add", "meshsec-nets", "type", "veth", "peer", "name", "veth1")
    ip("link", "add", "br0", "type", "bridge")
    ip("link", "add", "ml0a1b2c-0", "type", "vxlan", "id", "7", "remote", "fd00::1", "dstport", "4789")
    names = ("meshsec-nets", "meshsec-clients")
    assert leftovers.devices(names) == ("meshsec-clients", "ml0a1b2c-0"), "a pair of cables is somebody else's"


def test_tables_are_known_by_their_whole_names() -> None:
    nft("add table inet meshsec_of_somebody; add table ip meshsec; add table inet meshsec_ike")
    assert leftovers.tables(("meshsec_held", "meshsec_ike", "meshsec")) == ("meshsec_ike",)


def test_who_translates_addresses_is_known_by_the_type_of_a_chain() -> None:
    for table in ("inet meshsec_uplink", "inet filter"):
        nft("add", "table", *table.split())
    nft("add", "chain", "inet", "filter", "forward", "{ type filter hook forward priority 0; }")
    nft("add", "chain", "inet", "meshsec_uplink", "out", "{ type nat hook postrouting priority 100; }")
    assert leftovers.translators(("meshsec_uplink",)) == ()
    nft("add", "table", "ip", "nat")
    nft("add", "chain", "ip", "nat", "POSTROUTING", "{ type nat hook postrouting priority 100; }")
    assert leftovers.translators(("meshsec_uplink",)) == ("ip nat",)
    assert leftovers.translators(()) == ("inet meshsec_uplink", "ip nat")


def test_policies_are_known_by_priority_or_by_the_nodes_address() -> None:
    def policy(source: str, destination: str, priority: int) -> None:
        ip("xfrm", "policy", "add", "src", source, "dst", destination, "dir", "out", "priority", str(priority))

    try:
        policy("fc13::1/128", "fc12::/16", 5)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"`ip xfrm policy add` fails, as where the kernel has no XFRM: {error}")
    assert leftovers.policies_and_ends(OWN) == ((), ()), "no policy of a network is the node's"
    policy("::/0", "fc13::2/128", BLOCK_PRIORITY)
    policy("10.77.0.1/32", "10.77.0.2/32", 7)
    assert leftovers.policies_and_ends(OWN) == ((BLOCK_PRIORITY,), ("10.77.0.1",))


def test_a_program_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LeftoversError, match=r"^nft --json list tables: No such file"):
        leftovers.tables(("meshsec",))
