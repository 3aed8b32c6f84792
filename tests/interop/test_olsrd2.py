"""olsrv2d and olsrd2 in one mesh: a line A - B - C whose middle is of the other make than its ends."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.interop.sites import HELLO_VALIDITY, OLSRD2, OLSRV2D, Site, mesh
from tests.lab import ground

pytestmark = [
    pytest.mark.skipif(not ground.find(OLSRD2), reason="olsrd2 is not on PATH"),
    pytest.mark.skipif(not ground.probe().root, reason="network namespaces need root"),
]

LINES = [(OLSRV2D, OLSRD2, OLSRV2D), (OLSRD2, OLSRV2D, OLSRD2)]


@pytest.fixture(scope="module", params=LINES, ids="-".join)
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Site]]:
    """The line, converged: everybody has routes to everybody's originators and attached networks."""
    with mesh(request.param, tmp_path_factory.mktemp("line")) as sites:
        for site, other in permutations(sites, 2):
            wait_routes(site, other)
        yield sites


def wait_routes(site: Site, other: Site) -> None:
    """Await routes to the originators and attached networks of another site."""
    wanted = {*other.originators, *other.attached}
    site.wait_for(f"routes to {sorted(wanted)}", lambda: wanted <= site.routes().keys(), 30)


def wait_no_routes(site: Site, lost: set[str], seconds: float) -> None:
    """Await that none of these routes is left."""
    site.wait_for(f"no routes to {sorted(lost)}", lambda: not lost & site.routes().keys(), seconds)


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
        assert a.routes()[far] == a.routes()[near], "the way to C begins like the way to B"
    assert {"0.0.0.0/0", "::/0"} <= a.routes().keys() & b.routes().keys()
    assert not {"0.0.0.0/0", "::/0"} & c.routes().keys()


def test_the_ends_select_the_middle_as_mpr_and_it_knows(line: list[Site]) -> None:
    a, b, c = line
    for end in (a, c):
        wait_chosen(end, b, "neighbor", "domain_mpr_remote")
        wait_chosen(end, b, "link", "link_flood_remote")
        wait_chosen(b, end, "neighbor", "domain_mpr_local")
        wait_chosen(b, end, "link", "link_flood_local")
        assert not chosen(b, end, "neighbor", "domain_mpr_remote"), "nobody is behind an end"


def wait_chosen(site: Site, other: Site, table: str, column: str) -> None:
    """Await that a column of ``nhdpinfo`` is true for another site."""
    site.wait_for(f"{column} of {other.name}", lambda: chosen(site, other, table, column), 10)


def chosen(site: Site, other: Site, table: str, column: str) -> bool:
    """Whether a column of ``nhdpinfo`` is true for both originators of another site."""
    rows = site.ask(f"nhdpinfo json {table}")
    return {row["neighbor_originator"] for row in rows if row[column] == "true"} >= set(other.originators)


def test_olsrv2d_finds_nothing_malformed_in_what_olsrd2_sends(line: list[Site]) -> None:
    for site in line:
        if site.make == OLSRV2D:
            counters = site.counters()
            assert (counters["malformed"], counters["invalid"]) == (0, 0), counters


def test_a_middle_that_comes_back_is_found_again(line: list[Site]) -> None:
    a, b, c = line
    b.router.stop()
    for site, other in ((a, c), (c, a)):
        wait_no_routes(site, {*b.originators, *other.originators, *other.attached}, 2 * HELLO_VALIDITY + 4)
    b.start()
    for site, other in permutations(line, 2):
        wait_routes(site, other)
    a.ping(c.hosts[0], a.originators[0])
    a.ping(c.hosts[1], a.originators[1])


def test_routes_go_with_a_killed_router_and_come_back_with_it(line: list[Site]) -> None:
    a, b, c = line
    lost = {*c.originators, *c.attached}
    c.router.kill()
    for site in (a, b):
        wait_no_routes(site, lost, 2 * HELLO_VALIDITY + 4)
        assert {*a.originators, *b.originators} - {*site.originators} <= site.routes().keys()
    c.start()
    for site, other in permutations(line, 2):
        wait_routes(site, other)
