"""olsrd2 can replace olsrv2d as the routing daemon on one node or on all."""

import pytest

from tests.lab.basics import programs
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

pytestmark = [
    pytest.mark.skipif(not programs.find("olsrd2"), reason="olsrd2 is not on PATH"),
    pytest.mark.timeout(400),
]


@pytest.mark.parametrize("with_olsrd2", ["abc", "b", "ac"])
def test_nodes_protect_themselves_whichever_router_they_run(with_olsrd2: str) -> None:
    with Lab(f"olsrd2-{with_olsrd2}", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up({name: Options("olsrd2", ipv4=True) for name in with_olsrd2}).trust_all()
        a, c = lab["a"], lab["c"]
        with captured(lab, "olsrd2") as captures:
            lab.start()
            a.wait_route(c, 90)
            c.wait_route(a, 90)
            a.wait_protected(c, 60)
            c.wait_protected(a, 60)
            with flow(a, c) as running:
                wait_arrivals(running, 20)
        assert_nothing_clear(captures)
