"""Networks in olsrd2: what is set in a running one, and what its recorded answers say."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.routing import olsrd2_networks as module
from meshsec.adapters.routing.mapped import LocalNetwork, as_ipv6, as_meant
from meshsec.adapters.routing.olsrd2_answers import AnswerError, entries_under, without_prompts
from meshsec.adapters.routing.olsrd2_networks import STATE, Olsrd2Networks
from meshsec.core.values.model import Address
from meshsec.core.values.networks import Announcement
from olsrd2_program import Program

VECTORS = Path(__file__).parents[3] / "tests/vectors/olsrd2"
OWN: tuple[Address, ...] = (ip_address("10.77.0.1"), ip_address("fd77::1"))
FAR: tuple[Address, Address] = (ip_address("10.77.0.3"), ip_address("fd77::3"))


def recorded(name: str) -> str:
    return without_prompts((VECTORS / name).read_text())


def local(prefix: str, metric: int = 1, distance: int = 1) -> LocalNetwork:
    return LocalNetwork(ip_network(prefix), distance, metric)


def settle(networks: Olsrd2Networks, program: Program) -> list[str]:
    """Compare once, and carry out what differs. Return the commands."""
    networks.take(program.run(STATE))
    details = networks.details()
    changes = networks.changes(program.run(details) if details else "", OWN)
    assert not program.run(changes).strip()
    return changes


def wanting(*prefixes: str) -> Olsrd2Networks:
    networks = Olsrd2Networks()
    networks.want(map(local, prefixes))
    return networks


@pytest.mark.parametrize(
    ("network", "announced"),
    [
        ("10.1.0.0/16", "::ffff:10.1.0.0/112"),
        ("0.0.0.0/0", "::ffff:0.0.0.0/96"),
        ("192.0.2.1/32", "::ffff:192.0.2.1/128"),
        ("::/0", "::/0"),
        ("2001:db8::/32", "2001:db8::/32"),
    ],
)
def test_a_network_is_announced_as_ipv6_and_understood_as_what_it_is(network: str, announced: str) -> None:
    assert as_ipv6(ip_network(network)) == announced
    assert as_meant(ip_network(announced)) == ip_network(network)


def test_a_network_around_the_mapped_ones_is_no_ipv4_network() -> None:
    assert as_meant(ip_network("::/80")) == ip_network("::/80")


def test_what_lacks_is_announced_with_its_metric_and_distance_in_one_commit() -> None:
    networks, program = Olsrd2Networks(), Program()
    networks.want([local("10.1.0.0/16", 5, 3), local("2001:db8:1::/48")])
    settle(networks, program)
    assert program.announced() == {"::ffff:10.1.0.0/112": (5, 3), "2001:db8:1::/48": (1, 1)}
    assert program.commits == 1
    assert settle(networks, program) == []
    assert not networks.lacking()


def test_nothing_is_changed_before_it_is_known_what_is_wanted() -> None:
    networks, program = Olsrd2Networks(), Program({"meshsec_10.1.0.0_16": {"prefix": "::ffff:10.1.0.0/112"}})
    networks.use([ip_network("10.2.0.0/16")])
    assert settle(networks, program) == []
    assert not networks.lacking()


def test_what_a_predecessor_announced_is_recognised_and_removed_when_it_is_not_wanted() -> None:
    first, program = wanting("10.1.0.0/16", "10.2.0.0/16"), Program()
    settle(first, program)
    second = wanting("10.1.0.0/16", "10.2.0.0/16")
    assert settle(second, program) == []
    second.want([local("10.2.0.0/16")])
    settle(second, program)
    assert {*program.announced()} == {"::ffff:10.2.0.0/112"}


def test_a_removal_leaves_the_sections_of_others_as_they_are() -> None:
    others = {"camera": {"prefix": "10.8.0.0/16", "distance": "3"}, "attached0": {"prefix": "fd00::/64"}}
    networks, program = wanting("10.1.0.0/16"), Program(others)
    settle(networks, program)
    networks.want([])
    settle(networks, program)
    assert program.committed == others
    assert settle(networks, program) == []


def test_new_networks_come_in_the_commit_that_removes_the_old_ones() -> None:
    networks, program = wanting("10.1.0.0/16"), Program()
    settle(networks, program)
    networks.want([local("10.2.0.0/16")])
    settle(networks, program)
    assert {*program.announced()} == {"::ffff:10.2.0.0/112"}
    assert program.commits == 2


def test_a_section_of_others_that_is_not_shown_prevents_the_removal() -> None:
    networks, program = wanting("10.1.0.0/16"), Program({"camera": {"prefix": "10.8.0.0/16"}})
    settle(networks, program)
    networks.want([])
    networks.take(program.run(STATE))
    details = program.run(networks.details()).replace("prefix", "pre")
    with pytest.raises(AnswerError, match="none is removed"):
        networks.changes(details, OWN)


def test_what_was_removed_in_olsrd2_without_a_commit_is_set_again() -> None:
    networks, program = wanting("10.1.0.0/16"), Program()
    settle(networks, program)
    program.run(["config remove olsrv2_lan[meshsec_10.1.0.0_16]."])
    settle(networks, program)
    assert [*program.committed] == ["meshsec_10.1.0.0_16"]


def test_another_metric_or_distance_is_set_again() -> None:
    networks, program = wanting("10.1.0.0/16"), Program()
    settle(networks, program)
    for wanted in (local("10.1.0.0/16", 9), local("10.1.0.0/16", 9, 2)):
        networks.want([wanted])
        assert [*networks.lacking().values()] == [wanted]
        settle(networks, program)
        assert program.announced() == {"::ffff:10.1.0.0/112": (wanted.metric, wanted.distance)}


def test_olsrd2_is_to_set_no_route_to_a_network_of_a_peer() -> None:
    networks, program = wanting(), Program(acl=["fc00::/7", "first_reject", "default_reject"])
    networks.use([*map(ip_network, ("10.1.0.0/16", "fd00:1::/64", "0.0.0.0/0"))])
    changes = settle(networks, program)
    assert program.acl[3:] == ["-10.1.0.0/16", "-fd00:1::/64"], "a default route would take all others along"
    assert changes[-2:] == ["config set olsrv2_lan[meshsec_recompute].prefix=fd77::1", "config commit"]
    assert settle(networks, program)[0] == "config remove olsrv2_lan."
    assert settle(networks, program) == []
    assert not program.committed


def test_without_an_ipv6_originator_nothing_is_announced_for_a_moment() -> None:
    networks = wanting()
    networks.use([ip_network("10.1.0.0/16")])
    networks.take(Program(acl=["first_reject"]).run(STATE))
    changes = networks.changes("", OWN[:1])
    assert changes == ["config set olsrv2.routable_acl=-10.1.0.0/16", "config commit"]


def test_a_change_of_networks_needs_no_other_one_to_compute_routes_again() -> None:
    networks, program = wanting("10.9.0.0/16"), Program(acl=["first_reject"])
    networks.use([ip_network("10.1.0.0/16")])
    settle(networks, program)
    assert [*program.committed] == ["meshsec_10.9.0.0_16"]
    assert program.acl == ["first_reject", "-10.1.0.0/16"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["-fe80::/10", "-::1", "default_accept", "first_reject", "-10.1.0.0/16"]),
        (["fc00::/7"], ["fc00::/7", "first_reject", "-10.1.0.0/16"]),
        (["fc00::/7", "first_accept"], ["fc00::/7", "first_accept", "-10.1.0.0/16"]),
        (["-10.1.0.0/16"], ["-10.1.0.0/16"]),
    ],
    ids=["defaults", "no order", "another order", "there already"],
)
def test_a_list_of_the_operators_is_extended_and_stays_in_force(before: list[str], after: list[str]) -> None:
    networks, program = wanting(), Program(acl=before)
    networks.use([ip_network("10.1.0.0/16")])
    settle(networks, program)
    assert program.acl == after


# --- recorded answers ---


def test_the_recorded_state_of_an_announcing_router_is_read() -> None:
    networks = Olsrd2Networks()
    networks.want([local("10.1.0.0/16"), local("::/0", 7, 2)])
    assert networks.take(recorded("networks-3-state.txt")) == 12.569
    assert not networks.lacking()
    assert networks.details() == []
    assert networks.changes("", OWN) == []
    networks.want([local("10.1.0.0/16")])
    assert networks.details()[0] == "config get olsrv2_lan[camera].prefix"
    assert networks.changes(recorded("networks-3-camera.txt"), OWN) == [
        "config remove olsrv2_lan.",
        "config set olsrv2_lan[camera].prefix=10.8.0.0/16",
        "config set olsrv2_lan[camera].distance=3",
        "config set olsrv2_lan[meshsec_10.1.0.0_16].prefix=::ffff:10.1.0.0/112",
        "config set olsrv2_lan[meshsec_10.1.0.0_16].metric=1",
        "config set olsrv2_lan[meshsec_10.1.0.0_16].distance=1",
        "config commit",
    ]


def test_the_recorded_lists_of_routable_addresses_are_read() -> None:
    networks = wanting()
    networks.use([ip_network("10.1.0.0/16")])
    networks.take(recorded("networks-2-state.txt"))
    changes = [line.rpartition("=")[2] for line in networks.changes("", ())[:-1]]
    assert changes[:2] == ["-169.254.0.0/16", "-127.0.0.0/8"]
    assert changes[-3:] == ["default_accept", "first_reject", "-10.1.0.0/16"]
    networks.want([local("10.1.0.0/16"), local("::/0", 7, 2)])
    networks.take(recorded("networks-3-state.txt"))
    assert networks.changes("", ())[:-1] == ["config set olsrv2.routable_acl=-10.1.0.0/16"]


@pytest.mark.parametrize("lost", ['"lan"', "routable_acl", "time_internal", '"12.569"'])
def test_a_state_without_one_of_its_parts_is_an_error(lost: str) -> None:
    with pytest.raises(AnswerError):
        Olsrd2Networks().take(recorded("networks-3-state.txt").replace(lost, '"other"'))


def test_prompts_between_the_answers_are_ignored() -> None:
    assert without_prompts("> \n> > Key 'a' has value:\n> x > y\n> ") == "\nKey 'a' has value:\nx > y\n"


def heard(entries: Iterable[Any], reached: Iterable[Address] = FAR, used: Iterable[str] = ()) -> tuple[Any, int]:
    networks = Olsrd2Networks()
    networks.use([*map(ip_network, used)])
    found, bad = networks.heard([*entries], {*reached})
    return [*found.values()], bad


ATTACHED = entries_under("attached_network", recorded("networks-1-attached_network.json"), "attached_network")


def test_the_recorded_announcements_are_read() -> None:
    assert heard(ATTACHED) == (
        [
            Announcement(ip_network("10.8.0.0/16"), FAR[0], 3, 2),
            Announcement(ip_network("::/0"), FAR[1], 2, 7),
            Announcement(ip_network("10.1.0.0/16"), FAR[1], 1, 1),
        ],
        0,
    )


def test_an_announcement_of_a_router_without_a_route_does_not_count() -> None:
    found, bad = heard(ATTACHED, [FAR[0]])
    assert [str(one.network) for one in found] == ["10.8.0.0/16"]
    assert bad == 0


def altered(**changes: object) -> dict[str, Any]:
    return {**ATTACHED[2], **changes}


@pytest.mark.parametrize(
    "entry",
    [
        {},
        altered(node=None),
        altered(node="nowhere"),
        altered(attached_net=5),
        altered(attached_net="10.1.0.0/8"),
        altered(attached_net_src=None),
        altered(domain_metric_out_raw="1"),
        altered(domain_metric_out_raw=0),
        altered(domain_metric_out_raw=True),
        altered(domain_metric_out_raw=None),
        altered(domain_distance=256),
        altered(domain_distance=-1),
        altered(domain_distance=1.0),
    ],
)
def test_a_malformed_announcement_is_counted_and_hides_no_other(entry: dict[str, Any]) -> None:
    found, bad = heard([entry, ATTACHED[0]])
    assert [str(one.network) for one in found] == ["10.8.0.0/16"]
    assert bad == 1


@pytest.mark.parametrize(
    "entry", [altered(attached_net_src="2001:db8::/32"), altered(domain_metric_out_raw=16_776_961)]
)
def test_a_network_for_some_sources_or_out_of_reach_is_left_out(entry: dict[str, Any]) -> None:
    assert heard([entry]) == ([], 0)


@pytest.mark.parametrize(
    "changes", [{"domain_metric_out_raw": 16_776_960}, {"domain_distance": 255}, {"domain_distance": 0}]
)
def test_the_last_values_that_make_sense_count(changes: dict[str, int]) -> None:
    found, _ = heard([altered(**changes)])
    assert len(found) == 1


def test_strangers_are_bounded_and_displace_no_network_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STRANGERS", 2)
    strangers = [altered(attached_net=f"2001:db8:{number}::/48") for number in range(5)]
    found, _ = heard([*strangers, *ATTACHED], used=["10.1.0.0/16"])
    assert [str(one.network) for one in found] == ["2001:db8::/48", "2001:db8:1::/48", "10.1.0.0/16"]
