"""The roster: whose cards are in force, and why others are not."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.world import card
from meshsec.core.trust import fleets, roster
from meshsec.core.trust.fleets import Fleet, FleetError, TrustList
from meshsec.core.trust.identity import raw_public_key
from meshsec.core.trust.membership import Joined, Membership, Place, placed
from meshsec.core.trust.roster import Held, RefusedError, Revocations, Roster, added, added_next, decide, kept, trusted
from meshsec.core.values.model import Card, Peer

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([octet]) * 32) for octet in (1, 2)]
RESCUE, SHIPS = (
    Fleet(name, raw_public_key(key.public_key())) for name, key in zip(("rescue", "ships"), KEYS, strict=True)
)
OWN, BOAT, SHIP, TRUCK, VAN = (card(number) for number in range(5))
RENEWED = replace(card(5), name=BOAT.name)
"""Another key of the node that has ``BOAT``."""
LAST = replace(card(6), name=BOAT.name)


def said(one: Card) -> str:
    return one.fingerprint.hex()


def of(held: dict[str, Card | Held], revocations: Revocations | None = None, joined: Joined | None = None) -> Roster:
    """Return the roster of added cards, each of which has its file."""
    cards = {title: one if isinstance(one, Held) else Held(one) for title, one in held.items()}
    present = {title for title in cards if not title.endswith("~")}
    return decide(cards, present, revocations or Revocations(), joined or Joined(), OWN)


def in_force(found: Roster) -> dict[str, Card]:
    return {title: peer.card for title, peer in found.peers.items()}


def member(joined: Joined, file: str, one: Card, since: int, *, until: int = 0, key: int = 0) -> None:
    joined.members[file] = fleets.sign_card(KEYS[key], one, since, until)


def one_fleet(number: int | None = None, *, damaged: bool = False) -> Joined:
    """Return a fleet without members; ``number`` is that of its list, which revokes nobody."""
    listed = None if number is None else TrustList(RESCUE.public_key, number, frozenset(), b"")
    return Joined({RESCUE.public_key: Membership(RESCUE, list=listed, damaged=damaged)})


def test_an_added_card_is_in_force_under_the_name_that_it_was_given() -> None:
    found = of({"a": BOAT, "b": SHIP})
    assert found.peers == {"a": Peer("a", BOAT), "b": Peer("b", SHIP)}
    assert (found.refused, found.refused_members) == ({}, {})


def test_a_next_key_is_in_force_beside_the_present_one() -> None:
    found = of({"boat": BOAT, "boat~": Held(RENEWED, "~")})
    assert {title: (peer.card, peer.key) for title, peer in found.peers.items()} == {
        "boat": (BOAT, "boat"),
        "boat~": (RENEWED, "boat~"),
    }


def test_the_mark_and_not_the_title_names_the_channel() -> None:
    """When keys change places their SAs stay (ADR 0041)."""
    found = of({"boat": Held(BOAT, "~"), "boat~": RENEWED})
    assert {title: peer.key for title, peer in found.peers.items()} == {"boat": "boat~", "boat~": "boat"}


def test_a_next_key_alone_is_not_in_force() -> None:
    found = of({"boat~": Held(RENEWED, "~")})
    assert found.peers == {}
    assert "no card whose place" in found.refused["boat~"]


def test_a_next_key_is_in_force_beside_an_unreadable_present_card() -> None:
    found = decide({"boat~": Held(RENEWED, "~")}, {"boat"}, Revocations(), Joined(), OWN)
    assert in_force(found) == {"boat~": RENEWED}


@pytest.mark.parametrize(
    ("revocations", "why"),
    [
        (
            Revocations(here={said(BOAT): "stolen"}),
            f"revoked (stolen): only `meshsec peer unrevoke {said(BOAT)}`",
        ),
        (Revocations(here={said(BOAT): ""}), f"revoked: only `meshsec peer unrevoke {said(BOAT)}` takes that back"),
        (Revocations(lists={said(BOAT): "by the fleet"}), "revoked (by the fleet)"),
        (Revocations({said(BOAT): "here"}, {said(BOAT): "there"}), "revoked (here): only"),
    ],
)
def test_a_revoked_key_makes_no_peer(revocations: Revocations, why: str) -> None:
    found = of({"boat": BOAT, "ship": SHIP}, revocations)
    assert in_force(found) == {"ship": SHIP}
    assert found.refused["boat"].startswith(f"its key is {why}")
    assert ("unrevoke" in found.refused["boat"]) == bool(revocations.here)


def test_a_revoked_card_contradicts_nobody() -> None:
    """Else a revoked card with another peer's address would end that peer's trust."""
    found = of({"boat": BOAT, "other": replace(SHIP, address=BOAT.address)}, Revocations(here={said(SHIP): ""}))
    assert in_force(found) == {"boat": BOAT}


@pytest.mark.parametrize(
    ("other", "noun"),
    [
        (replace(BOAT, name="x"), "public key"),
        (replace(BOAT, public_key=SHIP.public_key), f"address {BOAT.address}"),
    ],
)
def test_of_two_cards_with_the_same_claim_neither_is_in_force(other: Card, noun: str) -> None:
    found = of({"boat": BOAT, "other": other, "truck": TRUCK})
    assert in_force(found) == {"truck": TRUCK}
    assert found.refused == {
        "boat": f"its {noun} is also that of peer 'other'",
        "other": f"its {noun} is also that of peer 'boat'",
    }


@pytest.mark.parametrize(
    ("other", "noun"),
    [(replace(OWN, name="x"), "public key"), (replace(OWN, public_key=SHIP.public_key), f"address {OWN.address}")],
)
def test_a_card_with_this_nodes_own_key_or_address_makes_no_peer(other: Card, noun: str) -> None:
    found = of({"other": other, "boat": BOAT})
    assert in_force(found) == {"boat": BOAT}
    assert found.refused == {"other": f"its {noun} is this node's own"}


def test_a_member_is_in_force_under_the_name_on_its_card() -> None:
    joined = one_fleet()
    member(joined, "m", SHIP, 1)
    assert of({"boat": BOAT}, joined=joined).peers == {
        "boat": Peer("boat", BOAT),
        SHIP.name: Peer(SHIP.name, SHIP, fleet="rescue"),
    }


def test_of_a_fleet_whose_list_is_damaged_no_member_is_in_force() -> None:
    joined = one_fleet(damaged=True)
    member(joined, "m", SHIP, 1)
    found = of({}, joined=joined)
    assert (found.peers, found.refused_members) == ({}, {})


@pytest.mark.parametrize("revocations", [Revocations(here={said(SHIP): ""}), Revocations(lists={said(SHIP): ""})])
def test_a_member_whose_key_is_revoked_makes_no_peer(revocations: Revocations) -> None:
    joined = one_fleet()
    member(joined, "m", SHIP, 1)
    assert of({}, revocations, joined).peers == {}


def test_a_card_that_was_added_goes_before_a_member_with_its_key() -> None:
    joined = one_fleet()
    member(joined, "m", SHIP, 1)
    found = of({"mine": SHIP}, joined=joined)
    assert found.peers == {"mine": Peer("mine", SHIP)}
    assert found.refused_members == {}, "it is the same card"


def test_a_card_that_was_added_goes_before_a_member_of_its_name() -> None:
    joined = one_fleet()
    member(joined, "m", SHIP, 1)
    found = of({SHIP.name: BOAT}, joined=joined)
    assert in_force(found) == {SHIP.name: BOAT}
    assert found.refused_members == {
        "m": f"{SHIP.name!r} of the fleet 'rescue' is not in force: there is another peer of its name, {SHIP.name!r}"
    }


def test_a_member_that_was_signed_first_goes_before_one_of_another_fleet_with_its_name() -> None:
    joined = one_fleet()
    joined.memberships[SHIPS.public_key] = Membership(SHIPS)
    member(joined, "a", RENEWED, 2, key=1)
    member(joined, "b", BOAT, 1)
    found = of({}, joined=joined)
    assert in_force(found) == {BOAT.name: BOAT}
    assert list(found.refused_members) == ["a"]


@pytest.mark.parametrize("held", [{"boat": BOAT}, {}])
def test_a_member_with_an_address_that_is_taken_is_not_in_force(held: dict[str, Card | Held]) -> None:
    joined = one_fleet()
    member(joined, "m", BOAT, 1)
    member(joined, "n", SHIP, 2)
    clash = replace(SHIP, address=BOAT.address)
    joined.members["n"] = replace(joined.members["n"], card=clash)
    found = of(held, joined=joined)
    assert SHIP.name not in found.peers
    assert found.refused_members["n"].endswith(f"its address {BOAT.address} is another's")


def test_a_member_with_this_nodes_address_is_not_in_force() -> None:
    joined = one_fleet()
    member(joined, "n", SHIP, 2)
    joined.members["n"] = replace(joined.members["n"], card=replace(SHIP, address=OWN.address))
    assert of({}, joined=joined).peers == {}


@pytest.mark.parametrize("one", [OWN, replace(OWN, name="x"), replace(SHIP, name=OWN.name), VAN])
def test_this_node_is_no_peer_of_its_own_by_any_key_or_name(one: Card) -> None:
    signed = fleets.sign_card(KEYS[0], VAN, 1)
    joined = Joined({RESCUE.public_key: Membership(RESCUE, (signed,))})
    member(joined, "m", one, 1)
    found = of({}, joined=joined)
    assert (found.peers, found.refused_members) == ({}, {})


def test_the_number_of_the_fleets_list_decides_when_a_members_time_ends() -> None:
    for number, peers in ((None, {SHIP.name}), (500, {SHIP.name}), (501, set())):
        joined = one_fleet(number)
        member(joined, "m", SHIP, 1, until=500)
        found = of({}, joined=joined)
        assert set(found.peers) == peers
        assert ("its time has ended" in found.refused_members.get("m", "")) == (not peers)


def test_a_member_has_two_keys_and_the_one_that_was_signed_last_is_its_next() -> None:
    joined = one_fleet()
    for file, one, since in (("a", LAST, 3), ("b", BOAT, 1), ("c", RENEWED, 2)):
        member(joined, file, one, since)
    joined.marks = {"c": "~", "a": ""}
    found = of({}, joined=joined)
    name = BOAT.name
    assert {title: (peer.card, peer.key) for title, peer in found.peers.items()} == {
        name: (RENEWED, f"{name}~"),
        f"{name}~": (LAST, name),
    }


@pytest.mark.parametrize("mark", ["", "~"])
def test_of_a_members_two_keys_the_channels_differ_whatever_their_files_say(mark: str) -> None:
    joined = one_fleet()
    member(joined, "a", BOAT, 1)
    member(joined, "b", RENEWED, 2)
    joined.marks = {"a": mark, "b": mark}
    assert {peer.key for peer in of({}, joined=joined).peers.values()} == {BOAT.name, f"{BOAT.name}~"}


def test_the_same_card_again_is_the_peer_that_is_there() -> None:
    found = of({"boat": Held(BOAT, "~")})
    assert added(found, "boat", BOAT, "boat.card") is found.peers["boat"]


def test_a_card_that_is_new_makes_a_peer() -> None:
    assert added(of({"boat": BOAT}), "ship", SHIP) == Peer("ship", SHIP)


def test_another_card_with_the_same_key_takes_the_place_and_keeps_the_channel() -> None:
    renewed = replace(BOAT, by_secret=True)
    assert added(of({"boat": Held(BOAT, "~")}), "boat", renewed, "boat.card") == Peer("boat", renewed, "boat~")


@pytest.mark.parametrize("held", [{"boat": SHIP}, {}])
def test_a_place_that_has_a_file_is_not_given_to_another_key(held: dict[str, Card | Held]) -> None:
    """A card that cannot be read keeps its place too."""
    with pytest.raises(RefusedError, match=r"^boat\.card: there is a peer 'boat' with another card; remove it first$"):
        added(of(held), "boat", BOAT, "boat.card")


def test_a_card_of_a_revoked_key_is_not_added() -> None:
    revocations = Revocations(lists={said(SHIP): "by the fleet"})
    for add in (added, added_next):
        with pytest.raises(RefusedError, match=r"is not added: its key is revoked \(by the fleet\)$"):
            add(of({"boat": BOAT}, revocations), "boat", SHIP)


@pytest.mark.parametrize(
    ("one", "why"),
    [(replace(OWN, name="x"), "is this node's own"), (replace(TRUCK, name="x"), "is also that of peer 'truck'")],
)
def test_a_card_that_contradicts_another_is_not_added(one: Card, why: str) -> None:
    found = of({"boat": BOAT, "truck": TRUCK})
    with pytest.raises(RefusedError, match=f"^'van' is not added: its public key {why}$"):
        added(found, "van", one)
    with pytest.raises(RefusedError, match=f"^the next key of 'boat' is not added: its public key {why}$"):
        added_next(found, "boat", one)


def test_a_members_card_can_be_added_by_hand() -> None:
    joined = one_fleet()
    member(joined, "m", SHIP, 1)
    assert added(of({}, joined=joined), "mine", SHIP) == Peer("mine", SHIP)
    assert added(of({}, joined=joined), SHIP.name, BOAT) == Peer(SHIP.name, BOAT)


def test_a_next_key_gets_the_channel_that_the_present_one_does_not_use() -> None:
    assert added_next(of({"boat": BOAT}), "boat", RENEWED) == Peer("boat~", RENEWED)
    assert added_next(of({"boat": Held(BOAT, "~")}), "boat", RENEWED) == Peer("boat~", RENEWED, "boat")


def test_adding_a_next_key_that_the_peer_has_already_changes_nothing() -> None:
    found = of({"boat": BOAT, "boat~": Held(RENEWED, "~")})
    assert added_next(found, "boat", RENEWED) is found.peers["boat~"]
    assert added_next(found, "boat", BOAT) is found.peers["boat"]


def test_a_second_next_key_is_refused_and_another_card_of_the_first_is_not() -> None:
    found = of({"boat": BOAT, "boat~": Held(RENEWED, "~")})
    with pytest.raises(RefusedError, match="'boat' has a next key already: `meshsec peer end boat`"):
        added_next(found, "boat", LAST)
    renewed = replace(RENEWED, by_secret=True)
    assert added_next(found, "boat", renewed) == Peer("boat~", renewed)


def test_the_last_good_card_stays_in_force_unless_its_key_is_revoked() -> None:
    before = {"boat": Peer("boat", BOAT), "ship": Peer("ship", SHIP), "truck": Peer("truck", TRUCK)}
    assert kept(before, {"boat", "truck", "van"}, {said(TRUCK)}) == {"boat": Peer("boat", BOAT)}
    assert trusted(before, {said(TRUCK)}) == {title: before[title] for title in ("boat", "ship")}


def test_a_signed_card_that_cannot_be_in_force_is_not_stored() -> None:
    joined = one_fleet(500)
    member(joined, "m", SHIP, 10)
    signed = fleets.sign_card

    def place(one: Card, since: int, until: int = 0, file: str = "n") -> Place | None:
        return placed(joined, file, signed(KEYS[0], one, since, until), OWN, {said(TRUCK): ""})

    assert place(BOAT, 1) == Place("", ())
    assert place(OWN, 1) is None
    assert place(TRUCK, 1) is None, "revoked"
    assert place(VAN, 1, 499) is None, "its time has ended"
    assert place(VAN, 1, 500) is not None
    assert place(SHIP, 10, file="m") is None, "as it is there already"
    assert place(SHIP, 11, file="m") == Place("", ())


def test_a_third_key_ends_the_first_and_takes_its_channel() -> None:
    joined = one_fleet()
    member(joined, "a", BOAT, 10)
    joined.marks["a"] = ""
    second = fleets.sign_card(KEYS[0], RENEWED, 20)
    assert placed(joined, "b", second, OWN, {}) == Place("~", ())
    joined.members["b"], joined.marks["b"] = second, "~"
    assert placed(joined, "c", fleets.sign_card(KEYS[0], LAST, 30), OWN, {}) == Place("", ("a",))
    assert placed(joined, "c", fleets.sign_card(KEYS[0], LAST, 9), OWN, {}) is None, "signed before both"
    other = fleets.sign_card(KEYS[1], LAST, 30)
    joined.memberships[SHIPS.public_key] = Membership(SHIPS)
    assert placed(joined, "c", other, OWN, {}) == Place("", ()), "another fleet's namesake is another node"


def test_a_key_that_is_signed_again_keeps_its_channel_and_ends_no_other() -> None:
    joined = one_fleet()
    for file, one, since, mark in (("a", BOAT, 10, ""), ("b", RENEWED, 20, "~")):
        member(joined, file, one, since)
        joined.marks[file] = mark
    for file, one, mark in (("a", BOAT, ""), ("b", RENEWED, "~")):
        assert placed(joined, file, fleets.sign_card(KEYS[0], one, 30), OWN, {}) == Place(mark, ())
    del joined.members["a"]
    assert placed(joined, "b", fleets.sign_card(KEYS[0], RENEWED, 30), OWN, {}) == Place("~", ()), "also alone"


def test_namesakes_of_two_fleets_do_not_count_against_each_other() -> None:
    joined = one_fleet()
    joined.memberships[SHIPS.public_key] = Membership(SHIPS)
    for file, one, since, key in (("a", BOAT, 1, 0), ("b", RENEWED, 2, 0), ("c", LAST, 3, 1)):
        member(joined, file, one, since, key=key)
    assert set(joined.current()) == {"a", "b", "c"}


def test_the_lists_of_all_fleets_revoke() -> None:
    joined = one_fleet()
    listed = TrustList(SHIPS.public_key, 7, frozenset({BOAT.fingerprint}), b"")
    joined.memberships[SHIPS.public_key] = Membership(SHIPS, list=listed)
    assert joined.revoked() == {said(BOAT): "by the fleet ships, list of 1970-01-01 00:00:07 UTC"}


def test_a_third_key_takes_the_room_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "MEMBERS_MAX", 2)
    joined = one_fleet()
    member(joined, "a", BOAT, 10)
    member(joined, "b", RENEWED, 20)
    assert placed(joined, "c", fleets.sign_card(KEYS[0], LAST, 30), OWN, {}) == Place("~", ("a",))


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_the_second_key_keeps_its_channel_when_a_third_ends_the_first(first: str, second: str) -> None:
    """The key that was signed first ends, whatever the names of the files are."""
    joined = one_fleet()
    member(joined, second, RENEWED, 20)
    member(joined, first, BOAT, 10)
    joined.marks.update({first: "~", second: ""})
    assert placed(joined, "c", fleets.sign_card(KEYS[0], LAST, 30), OWN, {}) == Place("~", (first,))


def test_a_member_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "MEMBERS_MAX", 1)
    joined = one_fleet()
    member(joined, "m", SHIP, 10)
    with pytest.raises(FleetError, match="1 members are known; allowed: 1"):
        placed(joined, "n", fleets.sign_card(KEYS[0], BOAT, 1), OWN, {})
    assert placed(joined, "m", fleets.sign_card(KEYS[0], SHIP, 11), OWN, {}) is not None


def test_only_what_was_added_here_is_by_hand() -> None:
    joined = one_fleet()
    member(joined, "m", SHIP, 1)
    assert set(of({"boat": BOAT}, joined=joined).by_hand()) == {"boat"}
    assert roster.Roster(OWN).by_hand() == {}
