"""The directory of trusted cards."""

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import TrustStoreError
from meshsec.core.channels import ipv4_claims
from meshsec.core.channels.ipv4_claims import Surroundings
from meshsec.core.trust import card as cards
from meshsec.core.trust.identity import make_card
from meshsec.core.values.model import Card

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8")
)
OWN, BOAT, SHIP, TRUCK = (cards.parse(VECTORS[index]["card"]) for index in (1, 4, 2, 0))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "peers"


def with_ipv4(card: Card, ipv4: IPv4Address | None) -> Card:
    return make_card(card.name, card.public_key, ipv4)


def messages(store: Path) -> dict[str, str]:
    return {problem.path.name: problem.message for problem in trust_store.load(store, OWN)[1]}


def test_an_added_card_is_trusted(store: Path) -> None:
    for name, card in (("boat", BOAT), ("ship", SHIP)):
        trust_store.add(store, name, card, OWN)
    peers, problems = trust_store.load(store, OWN)
    assert {name: peer.card for name, peer in peers.items()} == {"boat": BOAT, "ship": SHIP}
    assert problems == ()


def test_a_card_is_one_readable_line(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    path = store / "boat.card"
    assert path.read_text() == cards.render(BOAT) + "\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_without_a_directory_nobody_is_trusted(store: Path) -> None:
    assert trust_store.load(store, OWN) == ({}, ())


def test_a_removed_card_is_not_trusted(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.remove(store, "boat")
    assert trust_store.load(store, OWN) == ({}, ())


@pytest.mark.parametrize("name", ["ship", "../boat", "", ".", "boat.card"])
def test_only_a_peer_can_be_removed(name: str, store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    with pytest.raises(TrustStoreError, match="known: boat"):
        trust_store.remove(store, name)


def test_a_corrupt_card_can_be_removed(store: Path) -> None:
    store.mkdir()
    (store / "boat.card").write_text("garbage")
    trust_store.remove(store, "boat")
    assert list(store.glob("[!.]*")) == []


def test_a_corrupt_card_is_located_and_hides_no_other(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    text = cards.render(SHIP)
    (store / "ship.card").write_text(text[:40] + ("q" if text[40] != "q" else "p") + text[41:])
    peers, problems = trust_store.load(store, OWN)
    assert list(peers) == ["boat"]
    (problem,) = problems
    assert problem.path == store / "ship.card"
    assert problem.message.startswith("character 41 (group 11, ")
    assert problem.message.endswith(f", likely {text[40]!r}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("Boat.card", None, "the name is 'Boat'; allowed: 1 to 32 characters"),
        ("boat.card", b"", "the card is empty"),
        ("boat.card", b"\xff", "octet 0xff is not UTF-8"),
        ("boat.card", b"q" * 1025, "is longer than 1024 octets"),
    ],
)
def test_a_file_without_a_card_is_reported(name: str, content: bytes | None, message: str, store: Path) -> None:
    store.mkdir()
    (store / name).write_bytes(cards.render(BOAT).encode() if content is None else content)
    assert message in messages(store)[name]


def test_a_directory_with_a_cards_name_is_reported(store: Path) -> None:
    (store / "boat.card").mkdir(parents=True)
    assert messages(store) == {"boat.card": "Is a directory"}


def test_other_files_are_ignored(store: Path) -> None:
    store.mkdir()
    for name in ("README", "boat.card~", ".boat.card.x1y2", ".card", "boat.card.orig"):
        (store / name).write_text("anything")
    assert trust_store.load(store, OWN) == ({}, ())


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_card_that_others_may_write_is_not_trusted(mode: int, store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    (store / "boat.card").chmod(mode)
    assert "others than its owner may write it" in messages(store)["boat.card"]


CLASHES = {
    "own card": (OWN, "its public key is this node's own"),
    "own IPv4": (with_ipv4(SHIP, OWN.ipv4), f"its IPv4 address {OWN.ipv4} is this node's own"),
    "key of another": (with_ipv4(BOAT, None), "its public key is also that of peer 'boat'"),
    "IPv4 of another": (with_ipv4(SHIP, BOAT.ipv4), f"its IPv4 address {BOAT.ipv4} is also that of peer 'boat'"),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_a_card_that_contradicts_another_is_refused(clash: str, store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    card, message = CLASHES[clash]
    with pytest.raises(TrustStoreError) as caught:
        trust_store.add(store, "other", card, OWN)
    assert str(caught.value) == f"'other' is not added: {message}"
    assert [path.name for path in store.glob("[!.]*")] == ["boat.card"]


def test_of_two_cards_with_one_ipv4_address_both_are_in_force_and_neither_s_claim_is_believed(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    (store / "other.card").write_text(cards.render(with_ipv4(SHIP, BOAT.ipv4)))
    peers, problems = trust_store.load(store, OWN)
    assert (sorted(peers), problems) == (["boat", "other"], ())
    assert ipv4_claims.contested(peers, OWN).keys() == {"boat", "other"}


def test_a_card_is_added_only_with_an_ipv4_address_that_would_be_believed(store: Path) -> None:
    around = Surroundings((IPv4Network("10.77.0.0/16"),))
    bad = with_ipv4(SHIP, IPv4Address("9.9.9.9"))
    with pytest.raises(TrustStoreError, match=r"'ship' is not added: its IPv4 address 9\.9\.9\.9 is outside"):
        trust_store.add(store, "ship", bad, OWN, around)
    trust_store.add(store, "ship", with_ipv4(SHIP, IPv4Address("10.77.3.1")), OWN, around)
    trust_store.add(store, "boat", with_ipv4(BOAT, None), OWN, around)
    with pytest.raises(TrustStoreError, match=r"next key of 'ship' is not added: its IPv4 address 9\.9\.9\.9"):
        trust_store.add_next(store, "ship", with_ipv4(TRUCK, IPv4Address("9.9.9.9")), OWN, around)


@pytest.mark.parametrize("clash", ["key of another"])
def test_of_two_contradicting_cards_on_disk_neither_is_in_force(clash: str, store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add(store, "truck", TRUCK, OWN)
    card, message = CLASHES[clash]
    (store / "other.card").write_text(cards.render(card))
    peers, _ = trust_store.load(store, OWN)
    assert list(peers) == ["truck"]
    found = messages(store)
    assert found["other.card"] == message
    assert found["boat.card"] == message.replace("'boat'", "'other'")


def test_two_cards_with_the_same_name_on_them_are_two_peers(store: Path) -> None:
    trust_store.add(store, "one", make_card("same", BOAT.public_key), OWN)
    trust_store.add(store, "two", make_card("same", SHIP.public_key), OWN)
    assert sorted(trust_store.load(store, OWN)[0]) == ["one", "two"]


def test_adding_again_changes_nothing(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    before = (store / "boat.card").stat()
    trust_store.add(store, "boat", BOAT, OWN)
    assert (store / "boat.card").stat().st_ino == before.st_ino


def test_another_card_does_not_replace_one(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    with pytest.raises(TrustStoreError, match="another card; remove it first"):
        trust_store.add(store, "boat", SHIP, OWN)
    assert trust_store.load(store, OWN)[0]["boat"].card == BOAT


def test_another_card_with_the_same_key_takes_its_place_and_the_channel_stays(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add_next(store, "boat", SHIP, OWN)
    trust_store.end(store, "boat", OWN)
    renewed = make_card("ship", SHIP.public_key, IPv4Address("10.77.0.9"), by_secret=not SHIP.by_secret)
    assert trust_store.add(store, "boat", renewed, OWN).card == renewed
    peer = trust_store.load(store, OWN)[0]["boat"]
    assert (peer.card, peer.key) == (renewed, "boat~")


def test_a_renewed_card_is_refused_as_a_first_one_is(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add(store, "truck", with_ipv4(TRUCK, IPv4Address("10.77.0.9")), OWN)
    with pytest.raises(TrustStoreError, match=r"its IPv4 address 10\.77\.0\.9 is also that of peer 'truck'"):
        trust_store.add(store, "boat", with_ipv4(BOAT, IPv4Address("10.77.0.9")), OWN)
    assert trust_store.load(store, OWN)[0]["boat"].card == BOAT


def test_another_card_with_the_same_next_key_takes_its_place_too(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add_next(store, "boat", SHIP, OWN)
    renewed = make_card("ship", SHIP.public_key, by_secret=not SHIP.by_secret)
    trust_store.add_next(store, "boat", renewed, OWN)
    peers = trust_store.load(store, OWN)[0]
    assert {name: (peer.card, peer.key) for name, peer in peers.items()} == {
        "boat": (BOAT, "boat"),
        "boat~": (renewed, "boat~"),
    }


@pytest.mark.parametrize("name", ["../boat", "", "Boat", "a/b", ".hidden"])
def test_a_name_cannot_lead_outside_the_directory(name: str, store: Path) -> None:
    with pytest.raises(TrustStoreError, match="allowed: 1 to 32 characters"):
        trust_store.add(store, name, BOAT, OWN)
    assert not store.exists()


def test_of_many_concurrent_adds_of_one_card_one_wins(store: Path) -> None:
    def add(number: int) -> bool:
        try:
            trust_store.add(store, f"peer-{number}", BOAT, OWN)
        except TrustStoreError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(add, range(16))) == 1
    assert len(trust_store.load(store, OWN)[0]) == 1


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system whose only page for data is used; only names can be added."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "meshsec-test", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")
def test_a_full_disk_leaves_the_cards_that_were_there(full_disk: Path) -> None:
    store = full_disk / "peers"
    trust_store.add(store, "boat", BOAT, OWN)
    filler = full_disk / "filler"
    filler.write_bytes(bytes(4096))
    with pytest.raises(OSError, match="No space left"):
        (full_disk / "more").write_bytes(bytes(4096))
    (full_disk / "more").unlink()
    with pytest.raises(TrustStoreError, match=r"ship\.card: No space left on device; nothing was changed"):
        trust_store.add(store, "ship", SHIP, OWN)
    assert [path.name for path in store.glob("[!.]*")] == ["boat.card"]
    assert trust_store.load(store, OWN)[0]["boat"].card == BOAT
    filler.unlink()
    trust_store.add(store, "ship", SHIP, OWN)
    assert sorted(trust_store.load(store, OWN)[0]) == ["boat", "ship"]


def test_a_next_key_is_in_force_beside_the_present_one_and_takes_its_place(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add_next(store, "boat", SHIP, OWN)
    peers, problems = trust_store.load(store, OWN)
    assert {name: (peer.card, peer.key) for name, peer in peers.items()} == {
        "boat": (BOAT, "boat"),
        "boat~": (SHIP, "boat~"),
    }
    assert problems == ()
    trust_store.end(store, "boat", OWN)
    peers, _ = trust_store.load(store, OWN)
    assert {name: (peer.card, peer.key) for name, peer in peers.items()} == {"boat": (SHIP, "boat~")}
    assert trust_store.add(store, "boat", SHIP, OWN).key == "boat~"


def test_each_change_of_a_key_gives_the_next_one_the_other_channel(store: Path) -> None:
    """A key keeps its channel, and so its SAs, whenever another key comes or goes."""
    trust_store.add(store, "boat", BOAT, OWN)
    for following, key in ((SHIP, "boat~"), (TRUCK, "boat"), (BOAT, "boat~")):
        trust_store.add_next(store, "boat", following, OWN)
        assert trust_store.load(store, OWN)[0]["boat~"].key == key
        trust_store.end(store, "boat", OWN)
        assert {peer.key for peer in trust_store.load(store, OWN)[0].values()} == {key}


def test_the_same_next_key_again_changes_nothing_and_another_is_refused(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    for _ in range(2):
        assert trust_store.add_next(store, "boat", SHIP, OWN).card == SHIP
    with pytest.raises(TrustStoreError, match="peer end boat"):
        trust_store.add_next(store, "boat", TRUCK, OWN)
    trust_store.end(store, "boat", OWN)
    assert trust_store.add_next(store, "boat", SHIP, OWN).name == "boat"
    assert not (store / "boat.next").exists()


def test_one_nodes_two_keys_may_share_its_ipv4_address_and_two_nodes_may_not(store: Path) -> None:
    ipv4 = IPv4Address("10.77.0.9")
    trust_store.add(store, "boat", with_ipv4(BOAT, ipv4), OWN)
    trust_store.add_next(store, "boat", with_ipv4(SHIP, ipv4), OWN)
    assert set(trust_store.load(store, OWN)[0]) == {"boat", "boat~"}
    with pytest.raises(TrustStoreError, match="IPv4"):
        trust_store.add(store, "truck", with_ipv4(TRUCK, ipv4), OWN)


@pytest.mark.parametrize("card", [OWN, TRUCK])
def test_a_next_key_of_another_peer_is_refused(store: Path, card: Card) -> None:
    trust_store.add(store, "truck", TRUCK, OWN)
    trust_store.add(store, "boat", BOAT, OWN)
    with pytest.raises(TrustStoreError, match="not added"):
        trust_store.add_next(store, "boat", card, OWN)
    assert set(trust_store.load(store, OWN)[0]) == {"boat", "truck"}


def test_a_next_key_needs_a_peer_and_an_end_needs_a_next_key(store: Path) -> None:
    with pytest.raises(TrustStoreError, match="no peer 'boat'"):
        trust_store.add_next(store, "boat", SHIP, OWN)
    trust_store.add(store, "boat", BOAT, OWN)
    with pytest.raises(TrustStoreError, match="peer next boat"):
        trust_store.end(store, "boat", OWN)


def test_removal_ends_the_trust_in_both_keys(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add_next(store, "boat", SHIP, OWN)
    trust_store.remove(store, "boat")
    assert list(store.glob("[!.]*")) == []


@pytest.mark.parametrize(("content", "says"), [("meshsec1qq\n", "character"), ("{card}\nchannel x\n", "mark is 'x'")])
def test_a_next_key_that_cannot_be_read_is_refused_and_the_present_one_stays(
    store: Path, content: str, says: str
) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    (store / "boat.next").write_text(content.format(card=cards.render(SHIP)))
    assert set(trust_store.load(store, OWN)[0]) == {"boat"}
    assert says in messages(store)["boat.next"]
    with pytest.raises(TrustStoreError, match="next key in force"):
        trust_store.end(store, "boat", OWN)


def test_a_next_key_without_a_present_one_is_not_in_force(store: Path) -> None:
    """A removal that was interrupted leaves no trust behind."""
    store.mkdir()
    (store / "boat.next").write_text(cards.render(SHIP) + "\n")
    assert trust_store.load(store, OWN)[0] == {}
    assert "no card whose place" in messages(store)["boat.next"]


def test_a_revoked_key_is_refused_whenever_and_under_whatever_name_it_comes(store: Path) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    trust_store.add(store, "ship", SHIP, OWN)
    assert trust_store.revoke(store, "boat", "stolen", OWN) == (BOAT.fingerprint.hex(),)
    assert set(trust_store.load(store, OWN)[0]) == {"ship"}
    with pytest.raises(TrustStoreError, match=r"is revoked \(boat: stolen\)"):
        trust_store.add(store, "other", BOAT, OWN)
    with pytest.raises(TrustStoreError, match="is revoked"):
        trust_store.add_next(store, "ship", BOAT, OWN)
    (store / "laid-here.card").write_text(cards.render(BOAT) + "\n")
    assert set(trust_store.load(store, OWN)[0]) == {"ship"}
    assert "peer unrevoke" in messages(store)["laid-here.card"]


def test_a_revoked_key_is_trusted_again_only_after_its_unrevocation(store: Path) -> None:
    fingerprint = BOAT.fingerprint.hex()
    trust_store.revoke(store, cards.render(BOAT), "", OWN)
    trust_store.unrevoke(store, fingerprint)
    assert trust_store.revocations(store) == {}
    trust_store.add(store, "boat", BOAT, OWN)
    assert set(trust_store.load(store, OWN)[0]) == {"boat"}
    with pytest.raises(TrustStoreError, match="no fingerprint of a revoked key"):
        trust_store.unrevoke(store, fingerprint)


def test_a_peer_is_revoked_with_both_its_keys_and_one_key_leaves_the_other(store: Path) -> None:
    for target, left in (("boat", {}), (BOAT.fingerprint.hex(), {"boat": SHIP}), (cards.render(SHIP), {"boat": BOAT})):
        trust_store.add(store, "boat", BOAT, OWN)
        trust_store.add_next(store, "boat", SHIP, OWN)
        revoked = trust_store.revoke(store, target, "", OWN)
        assert {name: peer.card for name, peer in trust_store.load(store, OWN)[0].items()} == left, target
        for fingerprint in revoked:
            trust_store.unrevoke(store, fingerprint)
        if left:
            trust_store.remove(store, "boat")


def test_a_revocation_is_the_name_of_its_file(store: Path) -> None:
    """The file's name revokes the key; its content does not matter, so damage cannot weaken it."""
    trust_store.add(store, "boat", BOAT, OWN)
    (store / f"{BOAT.fingerprint.hex()}.revoked").write_bytes(b"\xff" * 5000)
    assert trust_store.load(store, OWN)[0] == {}
    (store / "boat.revoked").touch()
    assert "revokes nothing" in messages(store)["boat.revoked"]


@pytest.mark.parametrize(
    ("target", "reason", "says"),
    [
        ("nobody", "", "no peer, no card and no fingerprint"),
        ("b" * 63, "", "no fingerprint"),
        (OWN.fingerprint.hex(), "", "own key"),
        ("boat", "a\nb", "printable"),
        ("boat", "a" * 201, "200 printable"),
    ],
)
def test_a_revocation_with_a_bad_target_or_reason_is_refused(store: Path, target: str, reason: str, says: str) -> None:
    trust_store.add(store, "boat", BOAT, OWN)
    with pytest.raises(TrustStoreError, match=says):
        trust_store.revoke(store, target, reason, OWN)
    assert set(trust_store.load(store, OWN)[0]) == {"boat"}
    assert trust_store.revocations(store) == {}
