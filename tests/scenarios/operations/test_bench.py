"""``meshsec bench`` measures running nodes and leaves their SAs in order."""

import json
from pathlib import Path

from tests.lab.lab import Lab
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema


def test_sa_setup_negotiates_again_and_reports_the_times(mesh: Lab, tmp_path: Path) -> None:
    a, c = mesh["a"], mesh["c"]
    initiator, other = (a, c) if a.control.peer(c.name)["initiator"] else (c, a)
    before = initiator.wait_protected(other).spis
    kept = tmp_path / "kept"
    options = ["--count", "3", "--interval", "1.2", "--yes", "--json", "--into", str(kept)]
    shown = initiator.meshsec("bench", "sa-setup", other.name, *options)
    view = json.loads(shown.stdout)
    schema("meshsec-bench-1").validate(view)
    assert (view["peer"], view["hops"], view["initiator"]) == (other.name, 2, True)
    (ready,) = [cell for cell in view["cells"] if cell["key"]["what"] == "ready"]
    assert ready["n"] == 3
    assert 0 < ready["median"] <= ready["p95"] <= ready["max"]
    (written,) = kept.glob("*.json")
    assert json.loads(written.read_text())["cells"] == view["cells"]
    mesh.wait_full_mesh()
    assert initiator.wait_protected(other).spis != before


def test_sa_setup_is_refused_at_once_for_nobody_and_for_a_peer_that_is_not_protected(mesh: Lab) -> None:
    a = mesh["a"]
    refused = a.meshsec("bench", "sa-setup", "nobody", "--yes", "--into", "/nowhere", check=False)
    said = "Error: 'nobody' is the name of no peer: `meshsec peer list` shows them\n"
    assert (refused.returncode, refused.stderr) == (1, said)
    mesh.link("b", "c").down()
    a.wait_for("no route to c", lambda: a.control.peer("c")["hops"] is None, 60)
    refused = a.meshsec("bench", "sa-setup", "c", "--yes", "--into", "/nowhere", check=False)
    assert refused.returncode == 1
    assert "not protected: `meshsec explain c` says why" in refused.stderr


def test_path_says_at_which_hop_packets_are_lost(mesh: Lab, tmp_path: Path) -> None:
    way, lost = _path(mesh["a"], tmp_path)
    assert (way, lost) == (["b", "c"], [0, 0])
    carrier = "meta l4proto esp" if capabilities.probe().esp == "kernel" else "udp dport 4500"
    link = mesh.link("b", "c")
    link.ends[0].filter(f"{carrier} numgen random mod 100 < 40 drop")
    try:
        way, (first, second) = _path(mesh["a"], tmp_path)
    finally:
        link.fix()
    assert (way, first) == (["b", "c"], 0)
    assert second > 0


def _path(node: Node, into: Path) -> tuple[list[str], list[float]]:
    """Return the way to c, and what was lost at each hop."""
    options = ["--count", "15", "--rounds", "2", "--json", "--into", str(into)]
    view = json.loads(node.meshsec("bench", "path", "c", *options).stdout)
    schema("meshsec-measurement-1").validate(view)
    trips = [one for one in view["cells"] if one["unit"] == "ms"]
    assert [one["key"]["hop"] for one in trips] == [1, 2]
    assert all(one["median"] > 0 for one in trips)
    return view["params"]["way"], [sum(one["samples"]) for one in view["cells"] if one["unit"] == "% lost"]


def test_path_to_nobody_and_to_a_peer_without_a_route_is_refused(mesh: Lab, tmp_path: Path) -> None:
    a = mesh["a"]
    into = ["--into", str(tmp_path)]
    assert "is the name of no peer" in a.meshsec("bench", "path", "nobody", *into, check=False).stderr
    mesh.link("b", "c").down()
    a.wait_for("no route to c", lambda: a.control.peer("c")["hops"] is None, 60)
    refused = a.meshsec("bench", "path", "c", *into, check=False)
    assert (refused.returncode, [*tmp_path.iterdir()]) == (1, [])
    assert "no route leads to c now: `meshsec explain c` says why" in refused.stderr
