"""olsrv2d and olsrd2 work together in one mesh: a line A - B - C whose middle is of another make than its ends."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.interop import sites
from tests.interop.sites import DEFAULTS, Site
from tests.lab.basics import programs
from tests.lab.foreign.olsrd2 import Olsrd2
from tests.lab.node import capabilities
from tests.lab.node.routers import Router

pytestmark = [
    pytest.mark.skipif(not programs.find("olsrd2"), reason="olsrd2 is not on PATH"),
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
]

LINES = {"olsrv2d-olsrd2-olsrv2d": (Router, Olsrd2, Router), "olsrd2-olsrv2d-olsrd2": (Olsrd2, Router, Olsrd2)}


@pytest.fixture(scope="module", params=LINES.values(), ids=list(LINES))
def line(request: pytest.FixtureRequest) -> Iterator[list[Site]]:
    """Start the line and wait until all have routes to all originators and attached networks."""
    with sites.line(request.param) as made:
        for site, other in permutations(made, 2):
            wait_routes(site, other)
        yield made


def wait_routes(site: Site, other: Site) -> None:
    """Wait for routes to the originators and attached networks of another site."""
    site.router.wait_reachable(other.destinations, 90)


def wait_no_routes(site: Site, lost: set[str], seconds: float) -> None:
    """Wait until none of these routes is left."""
    site.router.wait_for(f"no routes to {sorted(lost)}", lambda: not lost & site.router.kernel.destinations(), seconds)


def test_every_originator_answers_in_both_families(line: list[Site]) -> None:
    for site, other in permutations(line, 2):
        for source, destination in zip(site.originators, other.originators, strict=True):
            site.ping(destination, source)


def test_attached_networks_are_reached_each_way(line: list[Site]) -> None:
    for site, other in permutations(line, 2):
        for source, host in zip(site.originators, other.hosts, strict=True):
            site.ping(host, source)


def test_the_gateway_is_everybodys_default_route(line: list[Site]) -> None:
    a, b, c = line
    for near, far in zip(b.attached, c.attached, strict=False):
        assert a.router.kernel.next_hops()[far] == a.router.kernel.next_hops()[near], (
            "the way to C begins like the way to B"
        )
    assert a.router.kernel.destinations() & b.router.kernel.destinations() >= DEFAULTS
    assert not DEFAULTS & c.router.kernel.destinations()


def test_the_ends_select_the_middle_as_mpr_and_it_knows(line: list[Site]) -> None:
    a, b, c = line
    for end in (a, c):
        wait_chosen(end, b, "neighbor", "domain_mpr_remote")
        wait_chosen(end, b, "link", "link_flood_remote")
        wait_chosen(b, end, "neighbor", "domain_mpr_local")
        wait_chosen(b, end, "link", "link_flood_local")
        assert not chosen(b, end, "neighbor", "domain_mpr_remote"), "nobody is behind an end"


def wait_chosen(site: Site, other: Site, table: str, column: str) -> None:
    """Wait until a column of ``nhdpinfo`` is true for another site."""
    site.router.wait_for(f"{column} of {other.router.name}", lambda: chosen(site, other, table, column), 60)


def chosen(site: Site, other: Site, table: str, column: str) -> bool:
    """Return whether a column of ``nhdpinfo`` is true for both originators of another site."""
    rows = site.ask(f"nhdpinfo json {table}")
    return {row["neighbor_originator"] for row in rows if row[column] == "true"} >= set(other.originators)


def test_olsrv2d_finds_nothing_malformed_in_what_olsrd2_sends(line: list[Site]) -> None:
    for site in line:
        if site.router.make == "olsrv2d":
            counted = [site.router.counter(name) for name in ("malformed", "invalid")]
            assert counted == [0, 0], site.router.name


def test_a_middle_that_comes_back_is_found_again(line: list[Site]) -> None:
    a, b, c = line
    b.router.daemon.stop()
    for site, other in ((a, c), (c, a)):
        wait_no_routes(site, b.router.destinations | other.destinations, 60)
    b.router.start()
    for site, other in permutations(line, 2):
        wait_routes(site, other)
    a.ping(c.hosts[0], a.originators[0])
    a.ping(c.hosts[1], a.originators[1])


def test_routes_go_with_a_killed_router_and_come_back_with_it(line: list[Site]) -> None:
    a, b, c = line
    c.router.daemon.kill()
    for site in (a, b):
        wait_no_routes(site, c.destinations, 60)
    for site, other in ((a, b), (b, a)):
        site.router.wait_reachable(other.router.destinations, 60)
    c.router.start()
    for site, other in permutations(line, 2):
        wait_routes(site, other)
