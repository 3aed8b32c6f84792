"""The connection and the rules that a peer needs, with ESP in the kernel and in user space."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network

import pytest
from msgspec import structs

from core.world import card, peer
from meshsec.core.channels.desired import CHILD, CHILD_IPV4, addresses, connection_spec, initiates, rules_spec
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import Authentication, Card, EspBackend, Peer


def test_in_user_space_one_tunnel_carries_both_families_between_locators() -> None:
    spec = connection_spec(card(1), peer(3), EspBackend.LIBIPSEC, DEFAULT)
    assert (spec.local_address, spec.remote_address) == (IPv6Address("fd00::1"), IPv6Address("fd00::3"))
    assert (spec.local_id, spec.remote_id) == (IPv6Address("fc00::1"), IPv6Address("fc00::3"))
    assert (spec.local_public_key, spec.remote_public_key) == (card(1).public_key, card(3).public_key)
    assert spec.encapsulate
    (child,) = spec.children
    assert (child.name, child.mode, child.esp_proposals) == (CHILD, "tunnel", DEFAULT.esp_proposals)
    assert child.local_ts == (IPv6Network("fc00::1/128"), IPv4Network("10.0.0.1/32"))
    assert child.remote_ts == (IPv6Network("fc00::3/128"), IPv4Network("10.0.0.3/32"))


def test_the_lifetimes_and_the_replay_window_are_the_policys() -> None:
    policy = structs.replace(DEFAULT, ike_rekey_time=601, child_rekey_time=301, replay_window=64)
    spec = connection_spec(card(1), peer(3), EspBackend.KERNEL, policy)
    assert (spec.ike_rekey_time, spec.child_rekey_time, spec.replay_window) == (601, 301, 64)


@pytest.mark.parametrize(("here", "there"), [(True, False), (False, True), (True, True)])
def test_a_pair_authenticates_by_its_secret_when_an_end_cannot_sign(here: bool, there: bool) -> None:
    one, other = replace(card(1), by_secret=here), replace(card(3), by_secret=there)
    specs = (
        connection_spec(one, Peer("n3", other), EspBackend.KERNEL, DEFAULT),
        connection_spec(other, Peer("n1", one), EspBackend.KERNEL, DEFAULT),
    )
    assert [spec.authentication for spec in specs] == [Authentication.SECRET] * 2


def test_a_pair_signs_when_both_ends_can() -> None:
    assert connection_spec(card(1), peer(3), EspBackend.KERNEL, DEFAULT).authentication is Authentication.SIGNATURE


def test_in_the_kernel_the_address_pair_is_in_transport_mode_and_ipv4_in_a_tunnel() -> None:
    spec = connection_spec(card(1), peer(3), EspBackend.KERNEL, DEFAULT)
    assert (spec.local_address, spec.remote_address) == (IPv6Address("fc00::1"), IPv6Address("fc00::3"))
    assert not spec.encapsulate
    mesh, mesh4 = spec.children
    assert (mesh.name, mesh.mode) == (CHILD, "transport")
    assert (mesh.local_ts, mesh.remote_ts) == ((IPv6Network("fc00::1/128"),), (IPv6Network("fc00::3/128"),))
    assert (mesh4.name, mesh4.mode) == (CHILD_IPV4, "tunnel")
    assert (mesh4.local_ts, mesh4.remote_ts) == ((IPv4Network("10.0.0.1/32"),), (IPv4Network("10.0.0.3/32"),))


@pytest.mark.parametrize("backend", EspBackend)
@pytest.mark.parametrize(("own", "other"), [(True, False), (False, True), (False, False)])
def test_ipv4_is_protected_only_when_both_ends_have_it(backend: EspBackend, own: bool, other: bool) -> None:
    spec = connection_spec(card(1, ipv4=own), Peer("n3", card(3, ipv4=other)), backend, DEFAULT)
    (child,) = spec.children
    assert [network.version for network in (*child.local_ts, *child.remote_ts)] == [6, 6]


def test_both_ends_want_the_same_child_sas() -> None:
    for backend in EspBackend:
        here = connection_spec(card(1), peer(3), backend, DEFAULT)
        there = connection_spec(card(3), peer(1), backend, DEFAULT)
        assert [(child.name, child.mode, child.local_ts, child.remote_ts) for child in here.children] == [
            (child.name, child.mode, child.remote_ts, child.local_ts) for child in there.children
        ]


def test_exactly_one_end_initiates() -> None:
    assert initiates(card(1), card(3))
    assert not initiates(card(3), card(1))


def test_every_trusted_peer_has_rules_with_and_without_a_route() -> None:
    cards: list[Card] = [card(2), card(3), card(4, ipv4=False)]
    policy = structs.replace(DEFAULT, mesh_prefixes=(IPv6Network("fc00::/7"), IPv4Network("10.0.0.0/8")))
    protected = (address for known in cards for address in addresses(known))
    rules = rules_spec(card(1), protected, (known.locator for known in cards), EspBackend.KERNEL, policy)
    assert rules.protected == {address for known in cards for address in (known.address, known.ipv4) if address}
    assert rules.locators == {known.locator for known in cards}
    assert rules.mesh_prefixes == policy.mesh_prefixes
    assert rules.unknown_nodes is policy.unknown_nodes
    assert rules.backend is EspBackend.KERNEL
