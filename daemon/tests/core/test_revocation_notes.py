"""What is said of revoked keys is the fleet's word, bounded, and passed over by nodes of earlier versions."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust import fleets
from meshsec.core.trust import revocation_notes as notes
from meshsec.core.trust.fleet_exchange import Hello, Offer, Summary
from meshsec.core.trust.fleets import Fleet, FleetError
from meshsec.core.trust.identity import raw_public_key
from meshsec.core.trust.revocation_notes import Note

KEY, STRANGE = (Ed25519PrivateKey.from_private_bytes(bytes([octet]) * 32) for octet in (1, 2))
FLEET = Fleet("rescue", raw_public_key(KEY.public_key()))
JOINED = {FLEET.public_key: FLEET}
SAID = {bytes([1]) * 32: Note(1795877897, "bravo", "stolen"), bytes([2]) * 32: Note(9, "", "")}


def test_notes_are_read_as_they_were_written() -> None:
    found = notes.parse(notes.text(notes.sign(KEY, 7, SAID)), JOINED)
    assert (found.number, found.said) == (7, SAID)
    assert notes.are_notes(found.octets)
    assert not notes.are_notes(fleets.sign_list(KEY, 7, {bytes(32)}, None).octets)


def test_notes_of_another_fleet_or_by_another_key_are_refused() -> None:
    with pytest.raises(FleetError, match="no notes of a fleet that is joined"):
        notes.read(notes.sign(STRANGE, 7, SAID).octets, JOINED)
    octets = notes.sign(KEY, 7, SAID).octets
    with pytest.raises(FleetError, match="not signed by their fleet"):
        notes.read(octets[:-64] + STRANGE.sign(octets[:-64]), JOINED)
    with pytest.raises(FleetError, match="not signed by their fleet"):
        notes.read(octets[:-64] + KEY.sign(octets[:-64]), JOINED)


@given(st.binary(max_size=300))
def test_any_octets_with_a_good_signature_are_notes_or_an_error(rest: bytes) -> None:
    """The fleet's own key may sign what a later version writes."""
    body = notes.sign(KEY, 7, {}).octets[:-64] + rest
    try:
        found = notes.read(body + KEY.sign(b"meshsec fleet: revocation notes\0" + body), JOINED)
    except FleetError:
        return
    assert all(note.name.isprintable() and note.reason.isprintable() for note in found.said.values())


def test_a_terminals_controls_are_left_out() -> None:
    found = notes.read(notes.sign(KEY, 7, {bytes(32): Note(1, "br\x1b[2Javo", "a\nb")}).octets, JOINED)
    assert found.said[bytes(32)] == Note(1, "br[2Javo", "ab")


def test_where_there_is_no_room_the_oldest_notes_are_left_out() -> None:
    many = {number.to_bytes(32, "big"): Note(number, "n" * 32, "r" * 200) for number in range(1000)}
    found = notes.sign(KEY, 7, many)
    assert len(found.octets) <= fleets.LIST_OCTETS_MAX
    kept = {int.from_bytes(one, "big") for one in found.said}
    assert kept == set(range(1000 - len(kept), 1000))
    assert len(kept) > 400
    assert notes.read(found.octets, JOINED).said == found.said


@pytest.mark.parametrize("reason", ["r" * 201, "a\nb", "\u00e4" * 101])
def test_a_reason_that_does_not_fit_or_print_is_refused(reason: str) -> None:
    with pytest.raises(FleetError, match="allowed: 200 octets of printable characters"):
        notes.checked_reason(reason)


def test_numbers_are_dates_and_what_is_none_stays_a_number() -> None:
    assert notes.date(1795877897) == "2026-11-28 14:58:17 UTC"
    assert notes.date(2**63 - 1) == str(2**63 - 1)


def test_a_node_of_an_earlier_version_passes_the_notes_over() -> None:
    """Its holdings have the fleet alone: it is offered the list and no notes, and the exchange goes on."""
    listed = fleets.sign_list(KEY, 7, {bytes(32)}, None).octets
    said = notes.sign(KEY, 7, SAID).octets
    new = {
        FLEET.public_key: lines.holding(7, listed, ()),
        notes.exchanged_as(FLEET.public_key): lines.holding(7, said, ()),
    }
    old = {FLEET.public_key: lines.holding(0, b"", ())}
    for client, server in ((new, old), (old, new)):
        hello = lines.decode(lines.encode(lines.hello(client)), Hello)
        summary = lines.decode(lines.encode(lines.summary(server, hello)), Summary)
        offer = lines.decode(lines.encode(lines.offer(client, summary)), Offer)
        given_to_old = offer.news() if client is new else lines.answer(server, hello, offer).news()
        assert given_to_old.lists == (listed,)
