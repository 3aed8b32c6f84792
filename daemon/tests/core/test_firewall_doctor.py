"""Other firewalls of a machine: which tables close the mesh out, and when doctor says so."""

from typing import Any

import pytest

from meshsec.core.explain.findings import Level
from meshsec.core.explain.firewall_doctor import Closed, closed, judged

UFW = Closed("ip6", "filter", ("forward", "input"))
SILENT = "table ip6 filter {\n}\n"
NAMED = 'iifname "mesh0" accept'


def chain(family: str, table: str, hook: str, policy: str = "drop", kind: str = "filter") -> dict[str, Any]:
    return {"chain": {"family": family, "table": table, "name": "c", "type": kind, "hook": hook, "policy": policy}}


def test_the_tables_that_drop_what_they_do_not_accept_are_found_once_with_their_hooks() -> None:
    listed = [
        {"metainfo": {"version": "1.0.6"}},
        chain("ip6", "filter", "input"),
        chain("ip6", "filter", "forward"),
        {"chain": {"family": "ip6", "table": "filter", "name": "ufw6-user-input"}},
    ]
    assert closed(listed) == [UFW]


@pytest.mark.parametrize(
    "harmless",
    [
        chain("inet", "meshsec", "input"),
        chain("inet", "meshsec_access", "forward"),
        chain("inet", "filter", "input", "accept"),
        chain("ip", "filter", "forward"),
        chain("inet", "filter", "output"),
        chain("inet", "firewalld", "input", "accept", "nat"),
    ],
)
def test_tables_of_meshsec_open_ones_and_those_for_ipv4_alone_close_nothing(harmless: dict[str, Any]) -> None:
    assert closed([harmless]) == []


def test_firewalld_closes_by_a_last_rule() -> None:
    assert closed([chain("inet", "firewalld", "input", "accept")]) == [Closed("inet", "firewalld", ("input",))]


def test_a_closed_table_that_names_no_mesh_interface_is_warned_of_with_the_commands_that_open_it() -> None:
    (check,) = judged({UFW: SILENT}, ["mesh0"], hears=False)
    assert check.level is Level.WARN
    assert "the table ip6 filter drops at forward and input" in check.found
    assert "no rule of it names mesh0" in check.found
    assert "`ufw allow in on mesh0`" in check.fix


def test_a_rule_that_names_the_interface_shows_that_the_mesh_was_thought_of() -> None:
    assert judged({UFW: NAMED}, ["mesh0"], hears=False) == []
    assert judged({UFW: 'iifname { "eth0", "mesh0" } accept'}, ["mesh0"], hears=False) == []
    assert judged({UFW: 'iif "mesh0" accept'}, ["mesh0"], hears=False) == []
    in_a_set = 'set mesh {\n\ttype ifname\n\telements = { "eth0",\n\t\t     "mesh0" }\n}\niifname @mesh accept'
    assert judged({UFW: in_a_set}, ["mesh0"], hears=False) == []
    assert judged({UFW: in_a_set}, ["mesh1"], hears=False) != []
    assert "names mesh1" in judged({UFW: NAMED}, ["mesh0", "mesh1"], hears=False)[0].found
    assert judged({UFW: 'iifname "mesh00" accept'}, ["mesh0"], hears=False) != []
    assert judged({UFW: 'comment "mesh0"'}, ["mesh0"], hears=False) != []


def test_where_a_neighbour_is_heard_the_input_is_open_and_the_relay_may_not_be() -> None:
    assert judged({Closed("inet", "filter", ("input",)): SILENT}, ["mesh0"], hears=True) == []
    assert "drops at forward what" in judged({UFW: SILENT}, ["mesh0"], hears=True)[0].found
