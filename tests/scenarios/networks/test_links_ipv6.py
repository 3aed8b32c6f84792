"""Islands that a link over an internet with IPv6 alone joins (test_links.py has the others)."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.islands import FIRST, SECOND, Islands, islands
from tests.scenarios.expectations import assert_no_drift
from tests.scenarios.networks.joined import (
    assert_closed_without_daemons,
    assert_flood_keeps_nobody_out,
    assert_joined_and_hidden,
    assert_second_uplink_takes_over,
)


@pytest.fixture(scope="module")
def mesh() -> Iterator[Islands]:
    with islands("links6", version=6) as made:
        yield made


def test_far_ends_reach_each_other_and_the_internet_sees_ike_and_esp_alone(mesh: Islands) -> None:
    assert_joined_and_hidden(mesh)


def test_a_second_uplink_takes_over_when_the_first_falls_silent(mesh: Islands) -> None:
    assert_second_uplink_takes_over(mesh)


def test_the_commands_know_the_link(mesh: Islands) -> None:
    mesh.wait_paths(0, 1)
    b = mesh.lab["b"]
    (link,) = json.loads(b.meshsec("status", "--json", check=False).stdout)["links"]
    assert (link["peer"], link["up"], link["problems"]) == ("c", True, [])
    assert [(one["uplink"], one["behind_nat"]) for one in link["paths"]] == [(FIRST, True), (SECOND, False)]
    assert f"Link to c: eth1 with {mesh.public[0]}, behind a NAT" in b.meshsec("status", check=False).stdout
    for name in "bc":
        assert_no_drift(mesh.lab[name])


def test_a_flood_at_an_uplink_does_not_keep_the_linked_node_out(mesh: Islands) -> None:
    assert_flood_keeps_nobody_out(mesh)


def test_nothing_leaves_in_the_clear_when_the_daemons_die(mesh: Islands) -> None:
    """No test with these nodes follows."""
    assert_closed_without_daemons(mesh)
