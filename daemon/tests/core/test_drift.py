"""Drift: which differences are reported, and above all which are none."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha1
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

import pytest

from core.world import card, ike_sa, peer
from meshsec.adapters.ike import pluto_sas
from meshsec.core.channels.desired import addresses, connection_spec, host, rules_spec
from meshsec.core.ike import drift, drift_kernel, drift_networks
from meshsec.core.ike.drift import Configured, Credentials, Difference, Note, Report, Wanted, Where
from meshsec.core.ike.drift_kernel import Kernel, XfrmPolicy, XfrmState
from meshsec.core.ike.drift_networks import Ways
from meshsec.core.policy.negotiated import agrees_esp, agrees_ike
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.trust import card as cards
from meshsec.core.values.model import Authentication, EspBackend, IkeSa, Network
from meshsec.core.values.networks import ForeignRoute, OtherRoute, TunnelRoute
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

NODE, PEER = card(3), card(2)
SPEC = connection_spec(NODE, peer(2), EspBackend.KERNEL, DEFAULT)
WANTED = Wanted({"n2": SPEC}, {"n2": "boat"}, (NODE.public_key,))
RECORDED = Path(__file__).parents[3] / "tests/vectors/libreswan"
CARDS = Path(__file__).parents[3] / "tests/vectors/cards/valid.json"
NOW = 1000.0
BLOCK = 4_000_000_000
ANYWHERE = IPv6Network("::/0")


def told(**changes: Any) -> Configured:
    return replace(Configured.of(SPEC), **changes)


def good_sa(**changes: Any) -> IkeSa:
    sa = ike_sa("n2", remote_id=PEER.address)
    children = tuple(
        replace(
            child,
            name=spec.name,
            mode=spec.mode,
            spi_in=f"c{number}",
            spi_out=f"d{number}",
            local_ts=tuple(map(str, spec.local_ts)),
            remote_ts=tuple(map(str, spec.remote_ts)),
            rekey_at=NOW + 3600,
        )
        for number, (child, spec) in enumerate(zip((*sa.children, *sa.children), SPEC.children, strict=True))
    )
    suite = {"encryption": "AES_GCM_16-256", "prf": "PRF_HMAC_SHA2_256", "key_exchange": "CURVE_25519"}
    return replace(sa, **{**suite, "children": children, "local_id": NODE.address, "rekey_at": NOW + 14400, **changes})


def whats(differences: Any) -> list[tuple[Where, str | None, str]]:
    return [(one.where, one.peer, one.what) for one in differences]


def test_a_connection_as_wanted_is_no_difference_and_neither_are_values_that_are_not_reported() -> None:
    assert not list(drift.connections(WANTED, [told()]))
    silent = Configured("n2", children=tuple(drift.ConfiguredChild(child.name) for child in SPEC.children))
    assert not list(drift.connections(WANTED, [silent]))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"local_addresses": ("%any",)}, "local addresses"),
        ({"remote_authentication": "secret"}, "remote authentication"),
        ({"ike_version": "IKEv1/2"}, "ike version"),
        ({"ike_rekey_time": 0}, "ike rekey time"),
        ({"dpd_delay": 30}, "dpd delay"),
        ({"duplicates": "replace"}, "duplicates"),
        ({"children": Configured.of(SPEC).children[:1]}, "CHILD_SA mesh4"),
        (
            {"children": (*Configured.of(SPEC).children, drift.ConfiguredChild("more"))},
            "CHILD_SA more",
        ),
        (
            {"children": tuple(replace(child, remote_ts=("::/0",)) for child in Configured.of(SPEC).children[:1])}
            | {"name": "n2"},
            "CHILD_SA mesh: remote ts",
        ),
    ],
)
def test_each_reported_setting_is_compared(changes: Mapping[str, Any], what: str) -> None:
    found = whats(drift.connections(WANTED, [told(**changes)]))
    assert (Where.CONNECTION, "boat", what) in found


def test_a_missing_connection_and_an_unknown_one_are_reported() -> None:
    found = whats(drift.connections(WANTED, [told(name="evil")]))
    assert found == [(Where.CONNECTION, "boat", "connection"), (Where.CONNECTION, None, "connection evil")]


def test_an_equal_connection_is_reported_when_another_program_configured_it_last() -> None:
    assert whats(drift.connections(WANTED, [told()], {"n2", "n9"})) == [
        (Where.CONNECTION, "boat", "configured last by")
    ]


def test_foreign_and_missing_keys_and_secrets_are_reported() -> None:
    own = sha1(NODE.public_key, usedforsecurity=False).hexdigest()
    assert not list(drift.credentials(WANTED, Credentials(private_keys=frozenset({own}))))
    held = Credentials(frozenset({"00" * 20}), secrets=frozenset({"n2"}), authorities=frozenset({"CN=x"}))
    found = [what for _, _, what in whats(drift.credentials(WANTED, held))]
    assert found == [f"private key {'00' * 20}", f"private key {own}", "secret n2", "authority or certificate CN=x"]
    by_secret = replace(WANTED, connections={"n2": replace(SPEC, authentication=Authentication.SECRET)})
    (lacking,) = drift.credentials(by_secret, Credentials(private_keys=frozenset({own})))
    assert (lacking.what, lacking.is_) == ("secret n2", "none")


def test_an_address_has_one_key_and_former_keys_are_no_difference() -> None:
    real = cards.parse(json.loads(CARDS.read_text(encoding="utf-8"))[0]["card"])
    own = sha1(NODE.public_key, usedforsecurity=False).hexdigest()

    def found(key: bytes) -> list[Difference]:
        held = Credentials(frozenset({own}), frozenset({(str(real.address), key)}))
        return list(drift.credentials(WANTED, held))

    assert not found(real.public_key)
    for other in (b"", NODE.public_key, bytes(32)):
        assert whats(found(other)) == [(Where.CREDENTIALS, None, f"public key of {real.address}")]


def sas(*given: IkeSa, wanted: Wanted = WANTED) -> list[tuple[Where, str | None, str]]:
    return whats(drift.sas(wanted, {"n2": given}, NOW))


def test_sas_as_negotiated_by_this_policy_are_no_difference() -> None:
    assert not sas(good_sa())
    assert not sas(good_sa(prf="", integrity="", local_id=None, rekey_at=None, remote_id=None))
    assert not sas(good_sa(state=IkeSaState.REKEYED, encryption="3DES_CBC")), "what does not carry any more"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"encryption": "AES_CBC-256", "integrity": "HMAC_SHA1_96"}, "suite"),
        ({"key_exchange": "MODP_2048"}, "suite"),
        ({"prf": "PRF_HMAC_SHA1"}, "suite"),
        ({"remote_id": card(5).address}, "identity of the peer"),
        ({"local_id": card(5).address}, "identity of this node"),
        ({"rekey_at": NOW + 20000}, "rekeying"),
    ],
)
def test_an_ike_sa_of_another_policy_is_reported(changes: Mapping[str, Any], what: str) -> None:
    assert sas(good_sa(**changes)) == [(Where.IKE_SA, "boat", f"IKE_SA 1: {what}")]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"encryption": "AES_GCM_16-128", "key_exchange": "ECP_256"}, ": suite"),
        ({"encryption": "NULL"}, ": suite"),
        ({"mode": "tunnel"}, ": mode"),
        ({"remote_ts": ("::/0",)}, ": remote traffic selectors"),
        ({"rekey_at": NOW + 4000}, ": rekeying"),
        ({"name": "other"}, ""),
    ],
)
def test_a_child_sa_of_another_policy_is_reported(changes: Mapping[str, Any], what: str) -> None:
    sa = good_sa()
    first = replace(sa.children[0], **changes)
    name = first.name
    found = sas(replace(sa, children=(first, *sa.children[1:])))
    assert found == [(Where.CHILD_SA, "boat", f"CHILD_SA {name} c0{what}")]


@pytest.mark.parametrize("version", ["4.10", "5.2"])
def test_sas_that_pluto_reports_are_compared_alike(version: str) -> None:
    told = [(RECORDED / version / f"initiator-{kind}.txt").read_text("ascii") for kind in ("status", "trafficstatus")]
    established = pluto_sas.ike_sas(told[0], told[1], NOW, 1795435320.0)
    spec = replace(SPEC, name="node-2", remote_id=IPv6Address("fc00::2"))
    assert not list(drift.sas(Wanted({"node-2": spec}, {}, ()), established, NOW))
    other = replace(spec, ike_proposals=("chacha20poly1305-prfsha256-x25519",))
    assert [one.where for one in drift.sas(Wanted({"node-2": other}, {}, ()), established, NOW)] == [Where.IKE_SA]


def test_a_daemon_that_needs_none_of_the_nodes_keys_lacks_none() -> None:
    (lacks,) = drift.credentials(WANTED, Credentials())
    assert (lacks.what.partition(" ")[0], lacks.is_) == ("private", "none")
    assert not list(drift.credentials(WANTED, Credentials(private_keys=None)))


def test_an_sa_without_a_peer_is_reported() -> None:
    found = whats(drift.sas(WANTED, {"n9": [good_sa()]}, NOW))
    assert found == [(Where.IKE_SA, None, "IKE_SA 1 of n9")]


def test_a_proposal_with_unknown_words_agrees_with_everything() -> None:
    assert agrees_ike(["camellia128-sha256-x25519"], "CAMELLIA_CBC-128", "", "PRF_X", "CURVE_25519")
    assert not agrees_ike(["aes256gcm16-prfsha256-x25519-ke1_mlkem768"], "CAMELLIA_CBC-128", "", "", "CURVE_25519")
    assert agrees_esp(["aes256-sha256", "chacha20poly1305-x25519"], "CHACHA20_POLY1305-256", "", "")
    assert agrees_esp(["aes256-sha256"], "AES_CBC-256", "HMAC_SHA2_256_128", "")
    assert not agrees_esp(["aes256-sha256"], "AES_CBC-256", "HMAC_SHA2_512_256", "")
    assert agrees_ike(["aes256-sha256-modp2048"], "AES_CBC-256", "HMAC_SHA2_256_128", "PRF_HMAC_SHA2_256", "MODP_2048")
    assert not agrees_ike(["aes256-sha256-modp2048"], "AES_CBC-256", "HMAC_SHA2_256_128", "PRF_HMAC_SHA2_512", "")
    assert agrees_ike(["aes256gcm16-modp2048"], "AES_GCM_16-256", "", "PRF_HMAC_SHA2_512", "MODP_2048")


def test_the_parts_of_two_proposals_do_not_make_a_third() -> None:
    proposals = ["aes256gcm16-prfsha256-x25519", "aes128gcm16-prfsha256-ecp256"]
    assert not agrees_ike(proposals, "AES_GCM_16-256", "", "PRF_HMAC_SHA2_256", "ECP_256")


# --- the kernel ---


def state(spi: str, *, inbound: bool, mode: str, window: int = SPEC.replay_window) -> XfrmState:
    ends = (PEER.address, NODE.address) if inbound else (NODE.address, PEER.address)
    return XfrmState(*ends, spi, mode, window if inbound else 1)


def policies() -> list[XfrmPolicy]:
    made = []
    for child in SPEC.children:
        ends = child.local_ts[0], child.remote_ts[0]
        made += [
            XfrmPolicy("out", *ends, 100_000, allows=True, templates=((child.mode, False),)),
            XfrmPolicy("in", ends[1], ends[0], 100_000, allows=True, templates=((child.mode, False),)),
        ]
    return made


def kernel(**changes: Any) -> Kernel:
    blocks: set[tuple[str, Network, Network]] = {("in", host(PEER.address), ANYWHERE)}
    modes = [child.mode for child in SPEC.children]
    states: Sequence[XfrmState] = [
        state(f"{letter}{number}", inbound=letter == "c", mode=mode)
        for number, mode in enumerate(modes)
        for letter in "cd"
    ]
    wall = XfrmPolicy("in", host(PEER.address), ANYWHERE, BLOCK, allows=False)
    made = Kernel(
        rules=rules_spec(NODE, addresses(PEER), [PEER.locator], EspBackend.KERNEL, DEFAULT),
        block_priority=BLOCK,
        blocks=frozenset(blocks),
        endpoints=frozenset({NODE.address, PEER.address}),
        states=states,
        policies=[*policies(), wall],
        sas={"n2": (good_sa(),)},
    )
    return replace(made, **changes)


def found(has: Kernel) -> list[tuple[Where, str | None, str]]:
    return whats(drift_kernel.differences(WANTED, has))


def test_a_kernel_with_the_states_and_policies_of_its_sas_shows_no_difference() -> None:
    assert not found(kernel())
    assert not found(kernel(states=[*kernel().states, XfrmState(card(7).address, card(8).address, "e1", "tunnel", 32)]))


def test_missing_states_and_states_without_an_sa_are_reported() -> None:
    has = kernel()
    assert found(kernel(states=has.states[1:])) == [(Where.XFRM_STATE, "boat", "state of SPI c0")]
    stray = state("ee", inbound=True, mode="transport")
    what = f"state of SPI ee, {PEER.address} to {NODE.address}"
    assert found(kernel(states=[*has.states, stray])) == [(Where.XFRM_STATE, "boat", what)]


def test_after_a_rekeying_the_responder_sends_through_the_former_sa_for_a_time() -> None:
    sa = good_sa()
    new = replace(sa.children[0], spi_in="c7", spi_out="d7")
    before = replace(sa.children[0], state=ChildSaState.REKEYED)
    rekeyed = {"n2": (replace(sa, children=(before, *sa.children[1:], new)),)}
    states = [*kernel().states, state("c7", inbound=True, mode="transport")]
    assert not found(kernel(sas=rekeyed, states=states))
    assert found(kernel(sas=rekeyed, states=[one for one in states if one.spi != "d0"])), "no way out at all"
    assert found(kernel(sas=rekeyed, states=states[:-1])), "no way in"


def test_a_state_of_a_former_policy_is_reported() -> None:
    old = [replace(one, replay_window=32) for one in kernel().states]
    assert {what for _, _, what in found(kernel(states=old))} == {
        "state of SPI c0: replay window",
        "state of SPI c1: replay window",
    }


@pytest.mark.parametrize("changes", [{"templates": ()}, {"templates": (("transport", True),)}, {"allows": False}])
def test_a_policy_that_does_not_demand_esp_is_reported(changes: Mapping[str, Any]) -> None:
    first, *rest = kernel().policies
    what = f"policy {first.source} to {first.destination}, out"
    assert found(kernel(policies=[replace(first, **changes), *rest])) == [(Where.XFRM_POLICY, "boat", what)]
    assert (Where.XFRM_POLICY, "boat", what) in found(kernel(policies=rest))


def test_a_missing_xfrm_policy_is_reported() -> None:
    assert found(kernel(policies=policies())) == [(Where.XFRM_POLICY, None, f"policy {PEER.address}/128 to ::/0, in")]


@pytest.mark.parametrize(
    ("policy", "is_told"),
    [
        (XfrmPolicy("out", ANYWHERE, ANYWHERE, 7, allows=True), True),
        (XfrmPolicy("out", ANYWHERE, host(PEER.address), 7, allows=True, narrowed=True), True),
        (XfrmPolicy("in", host(PEER.address), ANYWHERE, 7, allows=False), True),
        (XfrmPolicy("out", IPv4Network("0.0.0.0/0"), IPv4Network("0.0.0.0/0"), 7, allows=True), True),
        (XfrmPolicy("out", ANYWHERE, ANYWHERE, BLOCK + 1, allows=True), False),
        (XfrmPolicy("out", ANYWHERE, IPv6Network("2001:db8::/32"), 7, allows=True), False),
        (XfrmPolicy("fwd", ANYWHERE, ANYWHERE, 7, allows=True), False),
    ],
)
def test_a_foreign_policy_is_reported_when_it_covers_user_data_and_wins(policy: XfrmPolicy, is_told: bool) -> None:
    named = (Where.XFRM_POLICY, None, f"policy {policy.source} to {policy.destination}, {policy.direction}")
    assert found(kernel(policies=[*kernel().policies, policy])) == ([named] if is_told else [])


def test_with_esp_in_user_space_the_kernel_needs_no_state_and_no_policy() -> None:
    has = kernel(esp=False, blocks=frozenset(), states=(), policies=())
    assert not found(has)
    assert found(replace(has, policies=policies()[:1])), "whoever made it"


NETWORK = IPv4Network("10.1.0.0/16")
THERE, ELSEWHERE = TunnelRoute(NETWORK, PEER.address), TunnelRoute(NETWORK, card(4).address)


def of_networks(
    wanted: Sequence[TunnelRoute] | None = (), installed: Sequence[TunnelRoute] = (), **more: Any
) -> list[str]:
    """Return the differences as people read them, without the fix."""
    found = [
        *drift_networks.differences(Ways(None if wanted is None else frozenset(wanted), frozenset(installed), **more))
    ]
    assert {(one.where, one.peer) for one in found} <= {(Where.NETWORK, None)}
    assert all(one.fix for one in found)
    return [f"{one.what}: is {one.is_}; should be {one.should}" for one in found]


def test_routes_of_networks_that_are_lacking_or_should_not_be_there_are_reported() -> None:
    way = f"through the tunnel to {PEER.address}"
    assert of_networks([THERE], [THERE]) == []
    assert of_networks([THERE]) == [f"route to {NETWORK}: is none; should be {way}"]
    assert of_networks(None, [THERE]) == [], "what is wanted is being derived"
    assert of_networks([], [THERE]) == [f"route to {NETWORK}: is {way}; should be none"]
    assert of_networks([THERE], [ELSEWHERE]) == [
        f"route to {NETWORK}: is none; should be {way}",
        f"route to {NETWORK}: is through the tunnel to {ELSEWHERE.peer}; should be none",
    ]
    (one, other) = of_networks([THERE._replace(forwarded=True), THERE._replace(mark=7)], [])
    assert one.startswith(f"route to {NETWORK} for flows that began through {PEER.address}:")
    assert other.startswith(f"route to {NETWORK} for forwarded packets:")


def test_what_other_programs_have_set_in_the_way_of_networks_is_reported_with_the_command_that_removes_it() -> None:
    six = IPv6Network("2001:db8:1::/64")
    more: dict[str, Any] = {
        "foreign": [ForeignRoute(six, 4, 7, 300)],
        "past": [OtherRoute(NETWORK, "lan0")],
        "unannounced": [IPv4Network("10.2.0.0/16")],
    }
    assert of_networks(**more) == [
        f"route to {six} through the tunnel, of metric 7 in table 300: is set by another program; should be none",
        f"route to {NETWORK}: is by lan0, where the rules drop it; should be through the tunnel alone",
        "10.2.0.0/16: is not announced; should be announced by the router",
    ]
    fixes = [one.fix for one in drift_networks.differences(Ways(frozenset(), frozenset(), **more))]
    assert fixes[0] == f"ip -6 route del {six} dev meshsec-nets proto 4 metric 7 table 300"
    assert fixes[1].startswith(f"ip -4 route del {NETWORK} dev lan0;")


def test_only_differences_seen_twice_are_lasting() -> None:
    stays = Difference(Where.IKE_SA, "boat", "IKE_SA 1: suite", "a", "b", "c")
    first = Report((stays, replace(stays, what="IKE_SA 2: suite")), (Note(Where.ADDRESS, "x"),))
    second = Report((replace(stays, is_="changing"), replace(stays, peer="van")), notes=(Note(Where.RULES, "n"),))
    assert drift.lasting(first, second) == Report((replace(stays, is_="changing"),), (), second.notes)


def test_the_view_of_one_peer_has_only_its_differences() -> None:
    mine = Difference(Where.IKE_SA, "boat", "x", "a", "b", "c")
    view = drift.view(Report((mine, replace(mine, peer=None))), "boat")
    assert [one["peer"] for one in view["differences"]] == ["boat"]
