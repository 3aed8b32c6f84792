"""Fleets in the trust store: their members are peers until the newest list revokes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import TrustStoreError, place
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.core.channels import ipv4_claims
from meshsec.core.trust import fleets, revocation_notes
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.identity import generate, make_card, public_key_of, raw_public_key
from meshsec.core.trust.revocation_notes import Note
from meshsec.core.values.model import Card, Peer

KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([octet]) * 32) for octet in (1, 2))
FLEET = Fleet("rescue", raw_public_key(KEY.public_key()))
OTHER = Fleet("ships", raw_public_key(OTHER_KEY.public_key()))


def _card(name: str, number: int) -> Card:
    seeds = (number.to_bytes(4, "big") + counter.to_bytes(28, "big") for counter in range(100_000))
    return make_card(name, public_key_of(generate(lambda: next(seeds))))


OWN, BOAT, SHIP, BOAT_ANEW, BOAT_LAST = (
    _card(name, at) for at, name in enumerate(("own", "boat", "ship", "boat", "boat"))
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store.join(tmp_path / "peers", FLEET, "", [OWN])
    return tmp_path / "peers"


def take(directory: Path, card: Card, since: int = 100, until: int = 0) -> int:
    return store.take_members(directory, [fleets.sign_card(KEY, card, since, until).octets], OWN)


def revoke(directory: Path, number: int, *revoked: Card) -> bool:
    listed = fleets.sign_list(KEY, number, {card.fingerprint for card in revoked}, None)
    return store.take_list(directory, listed.octets)


def in_force(directory: Path) -> dict[str, Card]:
    return {name: peer.card for name, peer in trust_store.load(directory, OWN)[0].items()}


def messages(directory: Path) -> str:
    return "\n".join(map(str, trust_store.load(directory, OWN)[1]))


def test_a_member_is_a_peer_and_the_same_card_again_is_nothing_new(directory: Path) -> None:
    assert take(directory, BOAT) == 1
    assert take(directory, BOAT) == 0
    assert trust_store.load(directory, OWN) == ({"boat": Peer("boat", BOAT, fleet="rescue")}, ())


def test_a_card_that_no_joined_fleet_has_signed_is_refused(directory: Path) -> None:
    with pytest.raises(TrustStoreError, match="joined: rescue"):
        store.take_members(directory, [fleets.sign_card(OTHER_KEY, BOAT, 100).octets], OWN)
    with pytest.raises(TrustStoreError, match="not signed by"):
        store.take_members(
            directory, [fleets.sign_card(KEY, SHIP, 1).octets, fleets.sign_card(KEY, BOAT, 100).octets[:-1] + b"x"], OWN
        )
    assert in_force(directory) == {}


def admit(directory: Path, own: Card, member: Card, by: Ed25519PrivateKey = KEY) -> bool:
    """Admit this node, and a member that ``by`` has signed."""
    return store.admit(directory, fleets.sign_card(KEY, own, 1).octets, [fleets.sign_card(by, member, 1).octets], [OWN])


def test_a_new_node_is_admitted_together_with_its_first_peer(directory: Path) -> None:
    assert admit(directory, OWN, BOAT)
    signed = store.read(directory).memberships[FLEET.public_key].of(OWN)
    assert signed is not None
    assert in_force(directory) == {"boat": BOAT}
    assert not admit(directory, OWN, BOAT), "nothing is new"
    assert admit(directory, OWN, SHIP), "a member that has nobody else learns of another"
    assert store.read(directory).memberships[FLEET.public_key].of(OWN) == signed


def own_networks(directory: Path) -> tuple[int, list[str]] | None:
    """Return since when this node's own card is signed, and its networks."""
    signed = store.read(directory).memberships[FLEET.public_key].of(OWN)
    return (signed.since, [str(one) for one in signed.card.networks]) if signed else None


@pytest.mark.parametrize("by", ["exchange", "approval"])
def test_a_member_takes_its_own_card_when_it_is_signed_anew_and_never_an_older_one(directory: Path, by: str) -> None:
    def save(card: Card, since: int) -> bool:
        octets = fleets.sign_card(KEY, card, since).octets
        if by == "exchange":
            return store.take_own(directory, [octets], [OWN])
        return store.admit(directory, octets, [], [OWN])

    wider = replace(OWN, networks=(ip_network("10.9.0.0/16"),))
    admit(directory, OWN, BOAT)
    assert save(wider, 5)
    assert own_networks(directory) == (5, ["10.9.0.0/16"])
    assert not save(OWN, 4), "it is older"
    assert save(OWN, 7)
    assert own_networks(directory) == (7, [])


@pytest.mark.parametrize("by", ["exchange", "approval"])
def test_a_fleet_that_was_left_meanwhile_is_not_joined_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The operator leaves the fleet just before this node's turn to change the store comes."""
    admit(directory, OWN, BOAT)
    octets, locked = fleets.sign_card(KEY, OWN, 9).octets, place.locked
    save = store.take_own if by == "exchange" else lambda path, own, keys: store.admit(path, own[0], [], keys)

    @contextmanager
    def late(path: Path) -> Iterator[None]:
        monkeypatch.setattr(place, "locked", locked)
        store.leave(path, "rescue")
        with locked(path):
            yield

    monkeypatch.setattr(place, "locked", late)
    with pytest.raises(TrustStoreError, match="joined: none"):
        save(directory, [octets], [OWN])
    assert not list(directory.glob("rescue.*"))


def test_an_exchange_makes_no_member(directory: Path) -> None:
    assert not store.take_own(directory, [fleets.sign_card(KEY, OWN, 5).octets], [OWN])
    assert own_networks(directory) is None


def test_own_cards_are_those_of_this_nodes_keys_signed_by_a_joined_fleet(directory: Path) -> None:
    admit(directory, OWN, BOAT)
    assert not store.take_own(directory, [fleets.sign_card(KEY, BOAT, 9).octets], [OWN])
    with pytest.raises(TrustStoreError, match="joined: rescue"):
        store.take_own(directory, [fleets.sign_card(OTHER_KEY, OWN, 9).octets], [OWN])
    assert own_networks(directory) == (1, [])


def test_a_node_is_not_admitted_by_what_others_signed_or_for_another_key(directory: Path) -> None:
    with pytest.raises(TrustStoreError, match="with another key than this node's"):
        admit(directory, SHIP, BOAT)
    with pytest.raises(TrustStoreError, match="of a fleet with the key"):
        admit(directory, OWN, BOAT, by=OTHER_KEY)
    assert store.read(directory).memberships[FLEET.public_key].owns == ()
    assert in_force(directory) == {}


def test_a_key_that_the_list_revokes_is_removed_and_not_taken_again(directory: Path) -> None:
    take(directory, BOAT)
    take(directory, SHIP)
    assert revoke(directory, 200, BOAT)
    assert in_force(directory) == {"ship": SHIP}
    assert take(directory, BOAT, since=300) == 0
    with pytest.raises(TrustStoreError, match=r"is revoked \(by the fleet rescue, list of 1970-01-01 00:03:20 UTC\)"):
        trust_store.add(directory, "by-hand", BOAT, OWN)
    with pytest.raises(TrustStoreError, match="no fingerprint of a revoked key"):
        trust_store.unrevoke(directory, BOAT.fingerprint.hex())


def test_a_list_also_revokes_a_card_that_was_added_by_hand(directory: Path) -> None:
    trust_store.add(directory, "friend", BOAT, OWN)
    revoke(directory, 200, BOAT)
    assert in_force(directory) == {}
    assert "friend.card: its key is revoked (by the fleet rescue, list of 1970-01-01 00:03:20 UTC)" in messages(
        directory
    )
    assert revoke(directory, 201)
    assert in_force(directory) == {"friend": BOAT}


def test_notes_say_whose_key_was_revoked_when_and_why_and_old_ones_are_refused(directory: Path) -> None:
    revoke(directory, 200, BOAT)
    said = {BOAT.fingerprint: Note(180, "boat", "stolen")}
    assert store.take_list(directory, revocation_notes.sign(KEY, 200, said).octets)
    assert not store.take_list(directory, revocation_notes.sign(KEY, 200, {}).octets)
    text = "by the fleet rescue, 1970-01-01 00:03:00 UTC: boat: stolen"
    assert trust_store.revocations(directory)[BOAT.fingerprint.hex()] == text
    with pytest.raises(TrustStoreError, match="no notes of a fleet that is joined"):
        store.take_list(directory, revocation_notes.sign(OTHER_KEY, 300, {}).octets)
    (directory / "rescue.notes").write_text("nonsense")
    assert "rescue.notes" in messages(directory)
    assert BOAT.fingerprint.hex() in trust_store.revocations(directory), "the list counts without notes"
    store.leave(directory, "rescue")
    assert not list(directory.glob("rescue.*"))


def test_an_older_list_is_refused(directory: Path) -> None:
    take(directory, BOAT)
    assert revoke(directory, 200, BOAT)
    assert not revoke(directory, 199)
    assert not revoke(directory, 200)
    assert take(directory, BOAT, since=300) == 0


def channels(directory: Path) -> dict[str, tuple[Card, str]]:
    """Return card and channel of each peer by its displayed name."""
    return {name: (peer.card, peer.key) for name, peer in trust_store.load(directory, OWN)[0].items()}


def test_when_a_list_revokes_one_of_a_members_two_keys_the_other_keeps_its_channel(directory: Path) -> None:
    assert [take(directory, BOAT, 100), take(directory, BOAT_ANEW, 200)] == [1, 1]
    assert channels(directory) == {"boat": (BOAT, "boat"), "boat~": (BOAT_ANEW, "boat~")}
    revoke(directory, 300, BOAT)
    assert channels(directory) == {"boat": (BOAT_ANEW, "boat~")}
    assert take(directory, BOAT, 100) == 0
    assert take(directory, BOAT_LAST, 400) == 1
    assert channels(directory) == {"boat": (BOAT_ANEW, "boat~"), "boat~": (BOAT_LAST, "boat")}


def test_the_order_in_which_two_keys_arrive_decides_only_their_channels(directory: Path) -> None:
    assert [take(directory, BOAT_ANEW, 200), take(directory, BOAT, 100)] == [1, 1]
    assert channels(directory) == {"boat": (BOAT, "boat~"), "boat~": (BOAT_ANEW, "boat")}


def test_a_third_key_ends_the_first_which_comes_back_no_more(directory: Path) -> None:
    assert [take(directory, BOAT, 100), take(directory, BOAT_ANEW, 200), take(directory, BOAT_LAST, 300)] == [1, 1, 1]
    assert channels(directory) == {"boat": (BOAT_ANEW, "boat~"), "boat~": (BOAT_LAST, "boat")}
    assert [take(directory, BOAT, 100), take(directory, BOAT_ANEW, 150)] == [0, 0]
    assert len(list(directory.glob("*.member"))) == 2


def test_a_key_that_is_signed_again_keeps_its_channel(directory: Path) -> None:
    take(directory, BOAT, 100)
    take(directory, BOAT_ANEW, 200)
    before = channels(directory)
    assert take(directory, BOAT_ANEW, 250) == 1
    assert channels(directory) == before
    assert take(directory, BOAT, 300) == 1
    assert channels(directory) == {"boat": (BOAT_ANEW, "boat~"), "boat~": (BOAT, "boat")}, "who was signed last is next"


def test_two_keys_whose_files_record_one_channel_get_one_each(directory: Path) -> None:
    """Two keys whose files record the same channel are given one each."""
    take(directory, BOAT, 100)
    take(directory, BOAT_ANEW, 200)
    file = directory / f"{BOAT_ANEW.fingerprint.hex()}.member"
    file.write_text(file.read_text().partition("\n")[0])
    assert channels(directory) == {"boat": (BOAT, "boat"), "boat~": (BOAT_ANEW, "boat~")}


def test_the_two_keys_of_a_member_share_its_ipv4_address_and_those_of_two_do_not(directory: Path) -> None:
    shared = IPv4Address("10.77.0.9")
    take(directory, replace(BOAT, ipv4=shared), 100)
    take(directory, replace(BOAT_ANEW, ipv4=shared), 200)
    assert set(in_force(directory)) == {"boat", "boat~"}
    take(directory, replace(SHIP, ipv4=shared), 300)
    peers = trust_store.load(directory, OWN)[0]
    assert set(peers) == {"boat", "boat~", "ship"}, "its IPv6 part is nobody else's"
    assert ipv4_claims.contested(peers, OWN) == {"ship": "10.77.0.9 is also that of peer 'boat'"}


def test_a_members_present_key_is_ended_by_the_fleet_alone(directory: Path) -> None:
    take(directory, BOAT, 100)
    take(directory, BOAT_ANEW, 200)
    with pytest.raises(TrustStoreError, match="'rescue' has signed both keys: its `meshsec fleet revoke` ends one"):
        trust_store.end(directory, "boat", OWN)


def test_this_nodes_next_card_stands_beside_its_own_until_that_has_ended(directory: Path) -> None:
    present, following = OWN, _card("own", 20)
    for card in (present, following):
        signed = fleets.sign_card(KEY, card, 1)
        store.join(directory, FLEET, fleets.card_text(signed), [present, following])
    membership = store.read(directory).memberships[FLEET.public_key]
    assert [one.card for one in membership.owns] == [present, following]
    assert take(directory, following, 500) == 0, "what comes back from others is no peer"
    assert membership.of(following)
    again = store.join(directory, FLEET, fleets.card_text(fleets.sign_card(KEY, following, 2)), [following])
    assert [one.card for one in again.owns] == [following]


def test_a_card_ends_by_the_operator_s_clock_as_the_list_tells_it(directory: Path) -> None:
    take(directory, BOAT, until=500)
    revoke(directory, 500)
    assert in_force(directory) == {"boat": BOAT}
    kept = next(directory.glob("*.member"))
    text = kept.read_text()
    revoke(directory, 501)
    assert in_force(directory) == {}
    assert messages(directory) == ""
    kept.write_text(text)
    assert in_force(directory) == {}
    assert "its time has ended" in messages(directory)
    assert take(directory, SHIP, until=500) == 0


def test_a_card_by_hand_goes_before_a_member(directory: Path) -> None:
    take(directory, BOAT)
    trust_store.add(directory, "mine", BOAT, OWN)
    assert in_force(directory) == {"mine": BOAT}
    trust_store.remove(directory, "mine")
    trust_store.add(directory, "boat", SHIP, OWN)
    assert in_force(directory) == {"boat": SHIP}
    assert "there is another peer of its name" in messages(directory)


def test_a_member_that_takes_the_place_of_a_card_by_hand_goes_on_with_its_channel(directory: Path) -> None:
    trust_store.add(directory, "boat", BOAT, OWN)
    trust_store.add_next(directory, "boat", BOAT_ANEW, OWN)
    trust_store.end(directory, "boat", OWN)
    take(directory, BOAT_ANEW)
    before = trust_store.load(directory, OWN)[0]["boat"]
    assert before.key == "boat~"
    trust_store.remove(directory, "boat")
    assert trust_store.load(directory, OWN)[0] == {"boat": replace(before, fleet="rescue")}


def test_a_removed_card_leaves_its_channel_to_no_other_key(directory: Path) -> None:
    trust_store.add(directory, "boat", BOAT, OWN)
    trust_store.add_next(directory, "boat", BOAT_ANEW, OWN)
    trust_store.end(directory, "boat", OWN)
    take(directory, BOAT)
    trust_store.remove(directory, "boat")
    assert trust_store.load(directory, OWN)[0] == {"boat": Peer("boat", BOAT, fleet="rescue")}


def test_a_command_for_cards_added_by_hand_refuses_a_member_with_the_reason(directory: Path) -> None:
    take(directory, SHIP)
    with pytest.raises(TrustStoreError, match="meshsec peer revoke ship"):
        trust_store.remove(directory, "ship")
    with pytest.raises(TrustStoreError, match="meshsec peer revoke ship"):
        trust_store.add_next(directory, "ship", BOAT, OWN)
    assert in_force(directory) == {"ship": SHIP}


def test_a_member_is_revoked_on_one_node_by_its_name(directory: Path) -> None:
    take(directory, BOAT)
    assert trust_store.revoke(directory, "boat", "", OWN) == (BOAT.fingerprint.hex(),)
    assert in_force(directory) == {}
    assert take(directory, BOAT, since=300) == 0
    trust_store.unrevoke(directory, BOAT.fingerprint.hex())
    assert take(directory, BOAT) == 1


def test_this_node_is_no_peer_of_its_own(directory: Path) -> None:
    assert take(directory, OWN) == 0
    own = fleets.card_text(fleets.sign_card(KEY, OWN, 1))
    assert store.join(directory, FLEET, own, [OWN]).owns == store.read(directory).memberships[FLEET.public_key].owns
    with pytest.raises(TrustStoreError, match="another key than this node's"):
        store.join(directory, FLEET, fleets.card_text(fleets.sign_card(KEY, BOAT, 1)), [OWN])
    with pytest.raises(TrustStoreError, match="with another key"):
        store.join(directory, Fleet("rescue", OTHER.public_key), "", [OWN])


def test_after_leaving_a_fleet_none_of_its_members_is_trusted(directory: Path) -> None:
    store.join(directory, OTHER, "", [OWN])
    take(directory, BOAT)
    revoke(directory, 200, SHIP)
    trust_store.add(directory, "by-hand", _card("x", 9), OWN)
    store.leave(directory, "rescue")
    assert sorted(path.name for path in directory.glob("[!.]*")) == ["by-hand.card", "ships.fleet"]
    with pytest.raises(TrustStoreError, match="joined: ships"):
        store.leave(directory, "rescue")


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"meshsec-trust-list1:AAAA", b"x" * 300_000])
def test_with_a_damaged_list_no_member_is_in_force(directory: Path, damage: bytes) -> None:
    """Members of a fleet with a damaged list are not in force until a newer list arrives."""
    take(directory, BOAT)
    revoke(directory, 200, SHIP)
    (directory / "rescue.list").write_bytes(damage)
    assert in_force(directory) == {}
    assert "rescue.list" in messages(directory)
    assert revoke(directory, 300)
    assert in_force(directory) == {"boat": BOAT}


def test_a_file_that_others_may_write_or_that_is_not_signed_is_not_in_force(directory: Path) -> None:
    take(directory, BOAT)
    (directory / "rescue.fleet").chmod(0o666)
    assert in_force(directory) == {}
    assert "chmod 644" in messages(directory)
    (directory / "rescue.fleet").chmod(0o644)
    (directory / "x.member").write_text(fleets.card_text(fleets.sign_card(OTHER_KEY, SHIP, 1)))
    assert in_force(directory) == {"boat": BOAT}


def test_a_member_too_many_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "MEMBERS_MAX", 1)
    take(directory, BOAT)
    for other in (SHIP, BOAT_ANEW):
        with pytest.raises(TrustStoreError, match="allowed: 1"):
            take(directory, other, since=200)
    assert take(directory, BOAT, since=200) == 1
