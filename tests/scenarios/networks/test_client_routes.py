"""The routing tables that bench-client-routes prints lead to the client and outside, wherever one begins to follow."""

import pytest

from rt.smesh import tables
from rt.smesh.network import THEIRS, network
from rt.smesh.tables import CLIENT, DEFAULT, INTERNAL
from tests.lab.node import capabilities

pytestmark = [
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]


def test_each_nodes_table_leads_to_the_client_and_to_the_outside() -> None:
    with network() as mesh:
        for place in "ab":
            mesh.join("a") if place == "a" else mesh.move("b")
            known = tables.names(mesh.lab.nodes.values(), mesh.own(mesh.station))
            found = {name: tables.read(mesh.lab[name], known) for name in THEIRS}
            assert {row.gateway for row in found[place] if row.kind == CLIENT and row.device != "mesh-r"} == {""}
            assert all(tables.count(table, INTERNAL) == len(THEIRS) - 1 for table in found.values())
            assert all(tables.count(table, CLIENT) == 2 for table in found.values())
            ways = {name: {row.gateway for row in table if row.kind == DEFAULT} for name, table in found.items()}
            assert all(ways[name] == {"g"} for name in THEIRS if name != "g")
            assert not ways["g"] & set(THEIRS)
