"""Links over the internet: what is refused, what both ends derive, and which SAs carry."""

from dataclasses import replace
from typing import Any

import pytest

from core.world import card
from meshsec.core.channels import nft_rules
from meshsec.core.config.settings import Settings, SettingsError, decode
from meshsec.core.ike import guard
from meshsec.core.islands import paths, state
from meshsec.core.policy.policy import Policy
from meshsec.core.values.islands import InternetLink
from meshsec.core.values.model import ChildSa, EspBackend, IkeSa, Perimeter, RulesSpec, UnknownNodes
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

LINK = InternetLink("n2", "203.0.113.2", ("eth1", "eth2"))
GOOD = {"peer": "hut", "address": "203.0.113.2", "uplinks": ["eth1"]}


def _decoded(*links: dict[str, Any], **tables: Any) -> Settings:
    table = {"node": {"name": "ridge"}, "routing": {"interfaces": ["mesh0"]}, **tables, "link": list(links)}
    return decode(table, "/etc/meshsec", lambda _: Policy())


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"peer": "ridge"}, "link.0.peer: 'ridge' is not allowed; allowed: the name of another node"),
        ({"peer": "Hut!"}, "link.0.peer"),
        ({"address": "fd00::1"}, "link.0.address: 'fd00::1' is not allowed; allowed: an address outside the mesh"),
        ({"address": "127.0.0.1"}, "link.0.address: '127.0.0.1' is not allowed; allowed: an IP address outside"),
        ({"address": "203.0.113"}, "link.0.address"),
        ({"address": "hut..example"}, "link.0.address"),
        ({"uplinks": ["mesh0"]}, "link.0.uplinks.0: 'mesh0' is not allowed; allowed: an interface that is none of"),
        ({"uplinks": ["eth1", "eth1"]}, "each interface once"),
        ({"uplinks": list("abcde")}, "at most 4 entries"),
        ({"uplinks": []}, "at least one interface, where [gateway] has no uplink"),
        ({"hello_interval": 0}, "link.0.hello_interval"),
        ({"speed": 1}, "link.0.speed"),
    ],
)
def test_a_bad_link_is_refused_with_what_is_allowed(link: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        _decoded({**GOOD, **link})
    assert problem in str(refused.value)


def test_two_links_to_one_peer_and_too_many_are_refused() -> None:
    for links in ([GOOD, GOOD], [{**GOOD, "peer": f"n{number}"} for number in range(9)]):
        with pytest.raises(SettingsError):
            _decoded(*links)


def test_the_links_of_a_node_have_four_uplinks_together() -> None:
    """The next one's routing table would not be a link's own."""
    links = [{**GOOD, "peer": f"n{number}", "uplinks": [f"eth{number}", "eth1"]} for number in range(2, 6)]
    assert len(_decoded(*links[:3]).links) == 3
    with pytest.raises(SettingsError, match=r"link\.3\.uplinks.*at most 4 different interfaces in all links"):
        _decoded(*links)


def test_other_daemons_are_refused() -> None:
    for tables in ({"ike": {"daemon": "libreswan"}}, {"routing": {"interfaces": ["mesh0"], "daemon": "olsrd2"}}):
        with pytest.raises(SettingsError, match="no link with"):
            _decoded(GOOD, **tables)


def test_a_link_is_four_interfaces_of_the_router_and_falls_back_to_the_gateways_uplink() -> None:
    settings = _decoded({"peer": "hut"}, gateway={"uplink": "wwan0"})
    assert settings.links == (InternetLink("hut", "", ("wwan0",)),)
    assert settings.routing.interfaces == ("mesh0", *paths.devices("hut"))
    metrics = [settings.routing.links[device].metric for device in paths.devices("hut")[1:]]
    assert metrics == [2631360, 3157632, 3683904]
    assert {settings.routing.links[device].hello.validity for device in paths.devices("hut")} == {0.6}
    assert all(map(paths.is_path, paths.devices("hut")))
    assert not paths.is_path("mesh0")


def test_both_ends_derive_the_same_paths_and_each_path_has_its_own() -> None:
    here, there = card(1), card(2)
    mine, theirs = paths.joints(here, there, "n2"), paths.joints(there, here, "n1")
    assert [(one.own, one.peer, one.network_id) for one in mine] == [
        (one.peer, one.own, one.network_id) for one in theirs
    ]
    others = paths.joints(here, card(3), "n3")
    assert len({address for one in (*mine, *others) for address in (one.own, one.peer)}) == 16
    assert all(one.own in paths.PREFIX for one in mine)


def test_connections_of_links_bear_names_that_no_peer_has() -> None:
    name = paths.connection("n2", 1)
    assert paths.is_link(name)
    assert paths.parts(name) == ("n2", 1)
    assert not paths.is_link("link")


def _sa(number: int, path: int, at: float, state: ChildSaState = ChildSaState.INSTALLED) -> IkeSa:
    child = ChildSa(paths.child(path), state, "tunnel", f"{number:08x}", f"{number + 100:08x}", "AES_GCM_16-256", at)
    return IkeSa(str(number), "link:n2:0", IkeSaState.ESTABLISHED, True, "a", "b", at, (child,))


def test_a_path_is_carried_by_its_youngest_sa_and_the_older_ones_are_closed() -> None:
    old, new, other = _sa(1, 0, 10.0), _sa(2, 0, 20.0), _sa(3, 1, 5.0)
    sas = {"link:n2:0": (old, new), "link:n2:1": (other, _sa(4, 2, 30.0, ChildSaState.OTHER))}
    assert {path: one.sa.unique_id for path, one in state.carriers(LINK, sas).items()} == {0: "2", 1: "3"}
    assert [sa.unique_id for sa in state.superseded(LINK, sas)] == ["1"]


def test_sas_that_both_ends_began_at_once_stay() -> None:
    assert not state.superseded(LINK, {"link:n2:0": (_sa(1, 0, 10.0), _sa(2, 0, 11.0))})


def test_a_peer_that_opens_sas_without_end_keeps_the_youngest_eight() -> None:
    sas = {"link:n2:0": tuple(_sa(number, 0, float(number)) for number in range(20))}
    assert {sa.unique_id for sa in state.excess(LINK, sas, 20.0)} == {str(number) for number in range(12)}


def test_an_sa_with_very_many_children_or_for_long_without_any_is_closed() -> None:
    crowded = replace(_sa(1, 0, 99.0), children=_sa(1, 0, 99.0).children * 17)
    idle, new = replace(_sa(2, 0, 80.0), children=()), replace(_sa(3, 0, 99.0), children=())
    assert {sa.unique_id for sa in state.excess(LINK, {"link:n2:1": (crowded, idle, new)}, 100.0)} == {"1", "2"}


def test_a_path_without_carrier_on_its_uplink_is_not_used() -> None:
    joints = paths.joints(card(1), card(2), "n2")
    sas = {"link:n2:0": (_sa(1, 0, 10.0),), "link:n2:1": (_sa(2, 1, 10.0),)}
    assert {one.path for one in state.usable(joints, [LINK], sas, ["eth1", "eth2"])} == {0, 1}
    assert {one.path for one in state.usable(joints, [LINK], sas, ["eth2"])} == {1}


def _rules(backend: EspBackend, *, linked: bool) -> RulesSpec:
    return RulesSpec(
        backend=backend,
        own=frozenset({card(1).address}),
        protected=frozenset({card(2).address}),
        locators=frozenset({card(2).locator}),
        mesh_prefixes=Policy().mesh_prefixes,
        unknown_nodes=UnknownNodes.DROP,
        perimeter=Perimeter(frozenset({"mesh0"}), frozenset({"eth1"} if linked else ())),
        joints=paths.joints(card(1), card(2), "n2") if linked else (),
    )


@pytest.mark.parametrize("backend", list(EspBackend))
def test_the_rules_name_each_path_with_its_network_number(backend: EspBackend) -> None:
    text = nft_rules.render(_rules(backend, linked=True))
    for one in paths.joints(card(1), card(2), "n2"):
        frames = f"udp dport 4789 @th,96,24 {one.network_id:#08x} accept"
        assert f"ip6 saddr {one.peer} ip6 daddr {one.own} {frames}" in text
        assert f"ip6 saddr {one.own} ip6 daddr {one.peer} {frames}" in text
    assert "@uplinks" in guard.render(_rules(backend, linked=True))


@pytest.mark.parametrize("backend", list(EspBackend))
def test_a_node_without_links_has_no_rules_for_them(backend: EspBackend) -> None:
    spec = _rules(backend, linked=False)
    assert not {"4789", "uplinks", "joints"} & set(nft_rules.render(spec).replace("_", " ").split())
    assert "uplinks" not in guard.render(spec)
