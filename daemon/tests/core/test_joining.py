"""Requests to join a fleet: what they prove, what is kept of them, and that a flood takes from its own way alone."""

import random
from dataclasses import replace
from ipaddress import IPv6Address, ip_network

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.trust import join_requests as requests
from meshsec.core.trust import joining
from meshsec.core.trust.identity import generate, make_card, public_key_of
from meshsec.core.trust.join_requests import Asking, JoinRequests
from meshsec.core.trust.joining import (
    NO_COOKIE,
    Approval,
    Cookie,
    Cookies,
    Found,
    JoinError,
    Receipt,
    Request,
    Search,
    Standing,
)
from meshsec.core.values.model import Card

FLEET, OTHER_FLEET = bytes([7]) * 32, bytes([8]) * 32
COOKIE = bytes(range(16))
HERE, THERE = IPv6Address("fc00::1"), IPv6Address("fc00::2")


def _seed(number: int) -> bytes:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return generate(lambda: next(seeds))


SEED, STRANGE_SEED = _seed(1), _seed(2)
KEY, STRANGE_KEY = map(Ed25519PrivateKey.from_private_bytes, (SEED, STRANGE_SEED))
CARD = make_card("bravo", public_key_of(SEED))


def requested(card: Card = CARD, key: Ed25519PrivateKey = KEY, cookie: bytes = COOKIE) -> Request:
    found = joining.decode(joining.request(key, card, FLEET, cookie))
    assert isinstance(found, Request)
    return found


def checked(octets: bytes) -> Card:
    found = joining.decode(octets)
    assert isinstance(found, Request)
    return joining.checked_card(found, CARD.address)


def test_a_request_says_who_asks_for_which_fleet_and_proves_the_key() -> None:
    said = requested()
    assert (said.fleet, said.cookie) == (FLEET, COOKIE)
    assert joining.checked_card(said, CARD.address) == CARD
    assert joining.checked_card(said, CARD.locator) == CARD


def test_the_longest_card_fits() -> None:
    networks = [ip_network(f"2001:db8:{number}::/128") for number in range(4)]
    longest = make_card("n" * 32, CARD.public_key, IPv6Address("::ffff:10.0.0.1").ipv4_mapped, networks=networks)
    assert joining.checked_card(requested(longest), CARD.address) == longest
    assert joining.SIZE_MAX + 48 <= 1280, "IPv6's smallest MTU"


def test_what_another_key_signed_or_another_address_sent_is_refused() -> None:
    with pytest.raises(JoinError, match="not signed by the key on its card"):
        joining.checked_card(requested(key=STRANGE_KEY), CARD.address)
    with pytest.raises(JoinError, match="came from fc00::1"):
        joining.checked_card(requested(), HERE)


@given(st.integers(2, 190), st.integers(1, 255))
def test_a_request_with_a_changed_octet_proves_nothing(at: int, change: int) -> None:
    octets = bytearray(requested().octets)
    octets[at % len(octets)] ^= change
    with pytest.raises(JoinError):
        checked(bytes(octets))


def test_a_card_with_a_wrong_character_costs_no_search_for_it() -> None:
    text = requested().card_text
    with pytest.raises(JoinError, match="checksum"):
        joining.checked_card(replace(requested(), card_text=text[:-1] + (b"q" if text[-1:] != b"q" else b"p")), HERE)


@pytest.mark.parametrize(
    "said",
    [
        Cookie(COOKIE),
        Receipt(COOKIE, Standing.REFUSED),
        Approval(COOKIE, b"own", b"one"),
        Search(bytes(range(9)), COOKIE),
        Found(COOKIE, bytes(69)),
    ],
)
def test_a_message_that_nobody_signs_is_read_as_it_was_written(
    said: Cookie | Receipt | Approval | Search | Found,
) -> None:
    assert joining.decode(joining.encode(said)) == said


@given(st.binary(max_size=800))
def test_octets_are_a_message_or_an_error(octets: bytes) -> None:
    for begun in (octets, bytes([1, octets[0] % 11 if octets else 0]) + octets[1:]):
        try:
            found = joining.decode(begun)
        except JoinError:
            continue
        assert isinstance(found, Request) or joining.encode(found) == begun


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\1",
        b"\2\2" + COOKIE,
        b"\1\2" + COOKIE[1:],
        b"\1\3" + COOKIE + b"\2",
        b"\1\4" + COOKIE + b"\0\1",
        b"\1\5" + bytes(96),
        b"\1\10" + bytes(8) + COOKIE,
        b"\1\11" + COOKIE,
        b"\1\11" + COOKIE + bytes(70),
        bytes(joining.SIZE_MAX + 1),
        b"\1\1" + bytes(32 + 16 + 64),
        b"\1\1" + bytes(joining.REQUEST_MAX - 1),
    ],
)
def test_what_has_no_form_of_a_message_is_refused(octets: bytes) -> None:
    with pytest.raises(JoinError):
        joining.decode(octets)


def test_a_cookie_is_shorter_than_any_request_and_good_for_its_address_and_time_alone() -> None:
    cookies, now = Cookies(bytes(32)), 90.0
    cookie = cookies.of(HERE, now)
    assert len(joining.encode(Cookie(cookie))) < len(requested().octets)
    assert len(joining.encode(Cookie(cookie))) < len(joining.encode(Search(bytes(9), NO_COOKIE)))
    assert cookies.hold(cookie, HERE, now + 60)
    assert not cookies.hold(cookie, HERE, now + 120)
    assert not cookies.hold(cookie, THERE, now)
    assert not cookies.hold(NO_COOKIE, HERE, now)
    assert not Cookies(bytes([1]) * 32).hold(cookie, HERE, now)


# --- what a member keeps ---


def said(number: int, fleet: bytes = FLEET, name: str = "") -> tuple[Request, Card]:
    """Return a request of one of any number of strangers."""
    card = replace(CARD, address=IPv6Address(f"fc01::{number:x}"), fingerprint=number.to_bytes(32, "big"))
    return Request(fleet, COOKIE, name.encode() or b"card %d" % number, b""), card


def put(kept: JoinRequests, number: int, via: IPv6Address = HERE, now: float = 0.0, fleet: bytes = FLEET) -> None:
    request, card = said(number, fleet)
    kept.put(request, card, card.address, via, now)


def numbers(kept: JoinRequests) -> set[int]:
    return {int.from_bytes(one.card.fingerprint, "big") for one in kept}


def test_a_repeated_request_is_one_and_a_forgotten_one_is_gone() -> None:
    kept = JoinRequests(lambda: 0.0)
    put(kept, 1)
    put(kept, 1, now=500.0)
    put(kept, 2, now=500.0)
    put(kept, 1, now=500.0, fleet=OTHER_FLEET)
    assert [(one.first_at, one.last_at) for one in kept] == [(0.0, 500.0), (500.0, 500.0), (500.0, 500.0)]
    kept.expire(500.0 + requests.KEPT_SECONDS)
    assert len(list(kept)) == 3
    put(kept, 3, now=501.0 + requests.KEPT_SECONDS)
    assert numbers(kept) == {3}


def test_only_the_same_request_needs_no_second_check() -> None:
    kept = JoinRequests(lambda: 0.0)
    put(kept, 1)
    request, card = said(1)
    assert kept.known(request, card.address) == card
    assert kept.known(said(1, name="another name")[0], card.address) is None
    assert kept.known(said(1, OTHER_FLEET)[0], card.address) is None
    assert kept.known(request, HERE) is None
    kept.put(*said(1, name="another name"), card.address, HERE, 9.0)
    assert [one.first_at for one in kept] == [9.0], "an operator sees that the card is another"


@given(st.integers(0, 2**32))
def test_a_flood_through_one_neighbour_pushes_out_none_that_came_through_another(seed: int) -> None:
    kept = JoinRequests(random.Random(seed).random)
    for number in range(requests.KEPT_MAX // 2):
        put(kept, number, THERE)
    for number in range(1000, 1400):
        put(kept, number, HERE)
        assert len(list(kept)) <= requests.KEPT_MAX
    assert numbers(kept) >= set(range(requests.KEPT_MAX // 2))


def test_a_request_that_is_repeated_through_the_flooded_neighbour_is_seen_again_and_again() -> None:
    kept, seen = JoinRequests(random.Random(1).random), 0
    for repetition in range(50):
        put(kept, 1)
        for number in range(120):  # the most that is checked in 30 s
            put(kept, 10_000 + 1000 * repetition + number)
            seen += 1 in numbers(kept)
    assert 0.2 < seen / (50 * 120) < 0.8


def test_checks_are_shared_out_by_neighbour() -> None:
    kept = JoinRequests(lambda: 0.0)
    assert sum(kept.may_check(HERE, 0.0) for _ in range(1000)) == requests.CHECKS_BURST
    assert kept.may_check(THERE, 0.0)
    assert sum(kept.may_check(HERE, 10.0) for _ in range(1000)) == requests.CHECKS_BURST
    assert sum(kept.may_check(HERE, 11.0) for _ in range(1000)) == requests.CHECKS_RATE


def test_budgets_of_neighbours_are_bounded() -> None:
    kept = JoinRequests(lambda: 0.0)
    for number in range(1000):
        kept.may_check(IPv6Address(number), 0.0)
    assert len(kept._budgets) == 64


def test_what_the_operator_refused_is_not_kept_and_refusals_are_bounded() -> None:
    kept = JoinRequests(lambda: 0.0)
    put(kept, 1)
    put(kept, 2)
    kept.refuse(said(1)[1].fingerprint)
    assert numbers(kept) == {2}
    assert kept.is_refused(said(1)[1])
    kept.allow(said(1)[1].fingerprint)
    assert not kept.is_refused(said(1)[1])
    for number in range(requests.REFUSED_MAX + 1):
        kept.refuse(said(number)[1].fingerprint)
    assert not kept.is_refused(said(0)[1])
    assert kept.is_refused(said(1)[1])


# --- whom a new node asks ---


def asked(asking: Asking, nodes: list[IPv6Address], seconds: float, start: float = 0.0) -> list[tuple[float, str]]:
    """Return who is asked when."""
    found, now = [], start
    while now < start + seconds:
        whom, due = asking.next(nodes, now)
        if whom is not None:
            found.append((now, str(whom)))
        assert due > now
        now = due
    return found


def test_everybody_is_asked_once_in_thirty_seconds_the_nearest_first() -> None:
    asking = Asking()
    assert asked(asking, [THERE, HERE], 30.0) == [(0.0, "fc00::2"), (0.25, "fc00::1")]
    assert asked(asking, [HERE, THERE], 1.0, 30.25) == [(30.25, "fc00::2"), (30.5, "fc00::1")]


def test_the_pace_does_not_grow_with_the_mesh_and_a_new_neighbour_does_not_wait() -> None:
    asking, many = Asking(), [IPv6Address(f"fc02::{number:x}") for number in range(1000)]
    assert len(asked(asking, many, 300.0)) == 1200
    assert asked(asking, [*many, HERE], 0.2, 300.0) == [(300.0, "fc00::1")]
    assert asked(asking, [], 3.0, 400.0) == []


def test_a_cookie_repeats_a_request_once_and_only_where_the_node_asked() -> None:
    asking = Asking()
    assert not asking.heard_cookie(HERE, COOKIE, 0.0)
    asking.next([HERE], 10.0)
    assert asking.cookie_for(HERE) == NO_COOKIE
    assert not asking.heard_cookie(THERE, COOKIE, 10.1)
    assert not asking.heard_cookie(HERE, COOKIE, 16.0), "late"
    assert asking.heard_cookie(HERE, COOKIE, 10.1)
    assert not asking.heard_cookie(HERE, COOKIE, 10.2), "again"
    assert asking.cookie_for(HERE) == COOKIE


def test_an_answer_counts_with_the_cookie_of_its_sender_alone() -> None:
    asking = Asking()
    asking.next([HERE], 10.0)
    assert not asking.is_answer(HERE, NO_COOKIE)
    asking.heard_cookie(HERE, COOKIE, 10.1)
    assert asking.is_answer(HERE, COOKIE)
    assert not asking.is_answer(HERE, bytes([1]) * 16)
    assert not asking.is_answer(THERE, COOKIE)
    asking.heard_receipt(HERE, Standing.WAITING, 11.0)
    assert list(asking.standings(100.0)) == [Standing.WAITING]
    assert list(asking.standings(102.0)) == []
