"""``meshsec bench`` measures running nodes and leaves their SAs in order."""

import json
from pathlib import Path

from tests.lab.lab import Lab
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
    assert (view["params"]["peer"], view["hops"], view["initiator"]) == (other.name, 2, True)
    (ready,) = [cell for cell in view["cells"] if cell["key"]["what"] == "ready"]
    assert ready["n"] == 3
    assert 0 < ready["median"] <= ready["p95"] <= ready["max"]
    (written,) = kept.glob("*.json")
    assert json.loads(written.read_text())["cells"] == view["cells"]
    mesh.wait_full_mesh()
    assert initiator.wait_protected(other).spis != before


def test_sa_setup_is_refused_without_an_sa(mesh: Lab) -> None:
    refused = mesh["a"].meshsec("bench", "sa-setup", "nobody", "--yes", "--into", "/nowhere", check=False)
    assert refused.returncode == 1
    assert "nobody is not a peer" in refused.stderr
