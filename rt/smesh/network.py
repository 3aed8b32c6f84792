"""The network whose routing tables Kaplan (2006) prints in figure 7, of this project's nodes.

A gateway g is next to a relay r, and two access nodes a and b are next to r, as 10.0.11.10, .20, .30 and .40 are there.
All trust each other. A client is at a or at b.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.lab.basics.shell import run
from tests.lab.gateways import DEFAULTS, OUTSIDE4, OUTSIDE6, UPLINK, NarrowHost, Uplink
from tests.lab.lab import Lab
from tests.lab.node.behind import Host
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.roaming import NETWORKS, Roaming, Station

THEIRS = {"g": "10.0.11.10", "r": "10.0.11.20", "a": "10.0.11.30", "b": "10.0.11.40"}
"""The paper's routers by our names."""
PAIRS = (("g", "r"), ("r", "a"), ("r", "b"))
_PATIENCE = 90.0


@contextmanager
def network() -> Iterator[Roaming]:
    """Start the nodes; the client is nowhere yet."""
    outward = dict.fromkeys(DEFAULTS, ("g",))
    inward = dict.fromkeys(NETWORKS, ("a", "b"))
    serving = {"networks": list(NETWORKS), "ports": ["ap1"]}
    options = {
        "g": Options(accept=inward, gateway={"uplink": UPLINK}),
        "r": Options(accept={**outward, **inward}),
        "a": Options(accept=outward, access={**serving, "peers": ["b"]}),
        "b": Options(accept=outward, access={**serving, "peers": ["a"]}),
    }
    with Lab("client-routes", PAIRS) as lab:
        lab.set_up(options)
        outside = lab.outsider("out")
        for address in (OUTSIDE4, OUTSIDE6):
            run(["ip", "-n", outside, "address", "add", address, "dev", "lo"])
        uplinks = {"g": Uplink.create(lab["g"], outside, 0)}
        camera = Host.behind(lab["r"], lab.outsider("camera"), 1)
        station = Station.create(lab, 1, "a", "b")
        lab.trust_all().start()
        lab.wait_full_mesh(_PATIENCE)
        for name in ("a", "b", "r"):
            lab[name].wait_for("the way out through g", partial(_leaves_by_g, lab[name]), _PATIENCE)
        yield Roaming(lab, outside, NarrowHost.create(lab, outside), station, uplinks, camera)


def _leaves_by_g(node: Node) -> bool:
    ways = {one["network"]: one["peer"] for one in node.control.ask("status")["networks"]}
    return all(ways.get(default) == "g" for default in DEFAULTS)
